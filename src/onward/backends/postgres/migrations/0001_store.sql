-- The tables of the embedded store, for many writers. Ids sort by their bytes, as they do there.
CREATE TABLE schema_version (
  version integer NOT NULL,
  serves  integer NOT NULL               -- the oldest version whose workers can go on with this schema
);

-- Each process takes a block of row ids at a time.
CREATE SEQUENCE documents_blocks;
CREATE SEQUENCE ledger_blocks;

-- What the ledger knows of a document. Bodies live apart, so that a sweep over many documents reads little.
CREATE TABLE documents (
  doc               bigint  PRIMARY KEY,
  look_at           float8  NOT NULL DEFAULT 0,
  attempt_count     integer NOT NULL DEFAULT 0,
  priority          integer NOT NULL DEFAULT 0,
  revision          integer NOT NULL DEFAULT 1,
  round             integer NOT NULL DEFAULT 0,
  size              integer NOT NULL DEFAULT 0,
  status            text    NOT NULL DEFAULT 'pending',
  collection        text    COLLATE "C" NOT NULL,
  id                text    COLLATE "C" NOT NULL,
  parent            text    COLLATE "C", -- 'collection/id' of the document it was made from
  source            text    COLLATE "C",
  "row"             bigint,              -- the ledger row of its current round, while that is not settled
  failed_batch      text    COLLATE "C",
  retry_at          float8,
  fingerprint       text    COLLATE "C",
  dead_letter       bigint,              -- its dead letter, until it succeeds
  last_attempt_time float8,
  created_at        float8,
  updated_at        float8,
  last_error        text,
  attempts          text,
  UNIQUE (collection, id)
);
CREATE INDEX documents_parent ON documents (parent) WHERE parent IS NOT NULL;
CREATE INDEX documents_source ON documents (source) WHERE source IS NOT NULL;
CREATE INDEX documents_batch ON documents (failed_batch, doc) WHERE failed_batch IS NOT NULL;
CREATE INDEX documents_look ON documents (look_at, collection, attempt_count)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
    AND "row" IS NULL AND failed_batch IS NULL;
CREATE INDEX documents_scheduled ON documents (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX documents_fingerprint ON documents (fingerprint, collection, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX documents_given_up ON documents (collection, status, id)
  WHERE status IN ('failed', 'failed_max_retries', 'discarded');
-- `doc > 0` is true of all: it keeps this index to the statement that says so, and from those of documents_look.
CREATE INDEX documents_unfinished ON documents (collection, id)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded') AND doc > 0;

CREATE TABLE bodies (
  doc  bigint PRIMARY KEY,
  body text   NOT NULL
);

-- One row per event and consuming service, until it is settled. What has a fixed width and is never null stands
-- first, then what indexes ask for: a change of state looks at all of that.
CREATE TABLE ledger (
  id          bigint  PRIMARY KEY,
  version     bigint  NOT NULL,
  token       bigint  NOT NULL DEFAULT 0,
  timestamp   float8  NOT NULL,
  due         float8  NOT NULL,
  able        float8  NOT NULL DEFAULT 0,
  priority    integer NOT NULL DEFAULT 0,
  deaths      integer NOT NULL DEFAULT 0,
  lapses      integer NOT NULL DEFAULT 0,
  started     integer NOT NULL DEFAULT 0,
  tries       integer NOT NULL DEFAULT 0,
  not_ready   integer NOT NULL DEFAULT 0,
  round       integer NOT NULL DEFAULT 0,
  generation  integer NOT NULL DEFAULT 0,
  state       text    NOT NULL,
  service     text    COLLATE "C" NOT NULL,
  event_type  text    NOT NULL,
  event_id    text    NOT NULL,
  key         text    COLLATE "C" NOT NULL,
  copied      float8 DEFAULT 0,           -- as `announced`, of its copy in a failed queue, if it is a dead letter
  worker      text,
  settled_at  float8,
  source      text    COLLATE "C",
  fingerprint text    COLLATE "C",
  announced   float8 DEFAULT 0,           -- when a wire was told of it: null, not yet; 0, there is none to tell
  lease       float8,
  collection  text    COLLATE "C",        -- of the documents that the service finishes
  ids         json    NOT NULL DEFAULT '[]',
  data        text    NOT NULL,
  trace       text,
  batch       integer,
  cursor      text,
  errors      text,
  reason      text,
  raw         bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Each index holds only the rows its query can want, so that what is settled costs nothing.
CREATE INDEX ledger_due ON ledger (service, priority, due, id) WHERE state = 'waiting' AND deaths < 2;
CREATE INDEX ledger_suspect ON ledger (service, due) WHERE state = 'waiting' AND deaths >= 2;
CREATE INDEX ledger_claimed ON ledger (worker) WHERE state = 'claimed';
CREATE INDEX ledger_dead ON ledger (id) WHERE state = 'dead';
CREATE INDEX ledger_unrouted ON ledger (event_type) WHERE state = 'unrouted';
CREATE INDEX ledger_unrouted_due ON ledger (due) WHERE state = 'unrouted';
CREATE INDEX ledger_dead_group ON ledger (fingerprint, id) WHERE state = 'dead';
CREATE INDEX ledger_dead_service ON ledger (service, id) WHERE state = 'dead';
CREATE INDEX ledger_dead_queue ON ledger (service, fingerprint, settled_at, id) WHERE state = 'dead';
CREATE INDEX ledger_archived ON ledger (id) WHERE state = 'archived';
CREATE INDEX ledger_event ON ledger (event_id) WHERE state = 'dead';
CREATE INDEX ledger_source ON ledger (source) WHERE source IS NOT NULL;
-- None knows `announced`: so it is changed in place. What is out is at the front of ledger_due.
CREATE INDEX ledger_uncopied ON ledger (id) WHERE state = 'dead' AND copied IS NULL;
-- Of two transactions that put the same on the ledger, one finds out by this, and looks again.
CREATE UNIQUE INDEX ledger_key ON ledger (key, service) WHERE state = 'waiting';

-- What was settled for good, for a while. Apart from the ledger: to append here and delete there costs half as much
-- as a change of state, which every index of the ledger is told of.
CREATE TABLE completed (
  settled_at float8  NOT NULL,
  id         bigint  NOT NULL,
  timestamp  float8  NOT NULL,
  due        float8  NOT NULL,
  deaths     integer NOT NULL,
  tries      integer NOT NULL,
  not_ready  integer NOT NULL,
  round      integer NOT NULL,
  service    text    COLLATE "C" NOT NULL,
  event_type text    NOT NULL,
  event_id   text    NOT NULL,
  worker     text,
  source     text    COLLATE "C",
  collection text    COLLATE "C",
  ids        json    NOT NULL,
  data       text    NOT NULL,
  reason     text
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_threshold = 10000);
CREATE INDEX ledger_done ON completed (settled_at);

CREATE TABLE subscriptions (
  service      text    COLLATE "C" PRIMARY KEY,
  event_type   text    NOT NULL,
  finishes     text,
  ids_field    text,
  naming       json    NOT NULL,
  needs        json    NOT NULL,
  failed_queue text    NOT NULL,
  version      integer NOT NULL
);

-- A source's generation grows when it is forgotten: what was begun before is refused.
CREATE TABLE sources (
  source     text    COLLATE "C" PRIMARY KEY,
  generation integer NOT NULL
);

-- Events of others that were taken in: settled ones are not kept for long, and a broker may bring them again.
CREATE TABLE strangers (
  event_id text   COLLATE "C" PRIMARY KEY,
  at       float8 NOT NULL
);
CREATE INDEX strangers_at ON strangers (at);

CREATE TABLE workers (
  worker    text   PRIMARY KEY,
  about     json   NOT NULL,
  last_seen float8 NOT NULL
);

CREATE TABLE breakers (
  dependency text PRIMARY KEY,
  breaker    json NOT NULL
);

CREATE TABLE openings (
  dependency text   NOT NULL,
  opened_at  float8 NOT NULL,
  closed_at  float8,
  reason     text   NOT NULL,
  remedy     text   NOT NULL
);

CREATE TABLE failed_batches (
  id          text    COLLATE "C" PRIMARY KEY,
  service     text    NOT NULL,
  source      text,
  errors      json    NOT NULL,
  retry_count integer NOT NULL DEFAULT 0,
  retry_after float8  NOT NULL,
  created_at  float8  NOT NULL
);
CREATE INDEX failed_batches_due ON failed_batches (retry_after);

-- Fields by which documents are found; a document class names them. A value is a text or a number.
CREATE TABLE keys (
  doc   bigint NOT NULL,
  name  text   COLLATE "C" NOT NULL,
  value jsonb  NOT NULL,
  PRIMARY KEY (doc, name, value)
);
CREATE INDEX keys_value ON keys (name, value);

CREATE TABLE vectors (
  doc    bigint PRIMARY KEY,
  model  text   NOT NULL,
  vector bytea  NOT NULL,
  change xid8   NOT NULL DEFAULT pg_current_xact_id()  -- the transaction that has placed it
);
-- Whoever keeps vectors in memory asks for those that have come since.
CREATE INDEX placings_change ON vectors (change);

-- Vectors that are gone, for a day.
CREATE TABLE displacings (
  doc    bigint      NOT NULL,
  change xid8        NOT NULL DEFAULT pg_current_xact_id(),
  at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX displacings_change ON displacings (change);
CREATE INDEX displacings_at ON displacings (at);

-- How many documents there are, kept up to date with every commit: counting them would read them all.
-- A connection has rows of its own, so that commits at the same time do not wait for each other.
CREATE TABLE tallies (
  source     text    COLLATE "C" NOT NULL,          -- '' for what belongs to none
  collection text    COLLATE "C" NOT NULL,
  status     text    COLLATE "C" NOT NULL,
  shard      integer NOT NULL,
  n          bigint  NOT NULL,
  PRIMARY KEY (source, collection, status, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- All failures with the same fingerprint, and what they have in common.
CREATE TABLE failure_groups (
  fingerprint      text    COLLATE "C" PRIMARY KEY,
  service          text    NOT NULL,
  collection       text,
  error_type       text    NOT NULL,
  message          text    NOT NULL,     -- of the last one
  place            text    NOT NULL,     -- the innermost frame of user code
  traceback        text    NOT NULL,
  first_seen       float8  NOT NULL,
  last_seen        float8  NOT NULL,
  failures         bigint  NOT NULL,
  documents        bigint  NOT NULL,     -- different ones
  kinds            json    NOT NULL,     -- how many failures of each kind
  versions         json    NOT NULL,     -- how many failures under each version of the workers
  dependencies     json    NOT NULL,     -- how many failures pointed at each dependency
  processed_before bigint  NOT NULL      -- documents of the collection that were processed when it began
);
CREATE INDEX failure_groups_seen ON failure_groups (last_seen);

-- Since when each version of the workers has been at work.
CREATE TABLE versions (
  version    text   PRIMARY KEY,
  first_seen float8 NOT NULL,
  last_seen  float8 NOT NULL
);

-- Totals and last values that outlive the processes that count.
CREATE TABLE counters (
  name  text   COLLATE "C" NOT NULL,
  label text   COLLATE "C" NOT NULL,
  value float8 NOT NULL,
  PRIMARY KEY (name, label)
);

-- Who does what only one should do at a time.
CREATE TABLE leaders (
  role   text   PRIMARY KEY,
  holder text   NOT NULL,
  until  float8 NOT NULL
);

-- What people have changed by hand.
CREATE TABLE actions (
  id      bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at      float8  NOT NULL,
  who     text    NOT NULL,
  via     text    NOT NULL,
  action  text    NOT NULL,
  about   json    NOT NULL,
  touched integer NOT NULL
);
CREATE INDEX actions_at ON actions (at, id);

-- Large bytes, in parts of a bounded size. Without a digest, it is only on its way, and nobody sees it; "put at
-- -infinity", it is being removed, and nothing is added to it any more.
CREATE TABLE blobs (
  id     bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  digest text   COLLATE "C" UNIQUE,
  size   bigint NOT NULL,
  put_at timestamptz NOT NULL DEFAULT clock_timestamp()
);
CREATE INDEX blobs_unnamed ON blobs (id) WHERE digest IS NULL;
CREATE TABLE blob_parts (
  blob  bigint  NOT NULL,
  part  integer NOT NULL,
  bytes bytea   NOT NULL,
  PRIMARY KEY (blob, part)
);
ALTER TABLE blob_parts ALTER COLUMN bytes SET STORAGE EXTERNAL;

-- What full text finds. Words are compared by their stem. There are no stop words: whatever was written can be
-- looked for. Not "porter", which takes "is" for the plural of "i".
CREATE TEXT SEARCH DICTIONARY stem (TEMPLATE = snowball, Language = english);
CREATE TEXT SEARCH CONFIGURATION words (PARSER = "default");
ALTER TEXT SEARCH CONFIGURATION words
  ADD MAPPING FOR asciiword, word, numword, int, uint, float, sfloat, version WITH stem;
CREATE TABLE texts (
  doc        bigint   PRIMARY KEY,
  size       integer  NOT NULL,          -- in words
  collection text     COLLATE "C" NOT NULL, -- as of the document, which is not looked up for all that is found
  source     text     COLLATE "C",
  title      text     NOT NULL,
  text       text     NOT NULL,
  stems      tsvector NOT NULL           -- of the title (weight A), a gap, those of the text (weight D)
);
-- Ranking reads the stems of many texts: they stand in the row, the texts themselves elsewhere.
ALTER TABLE texts ALTER COLUMN stems SET STORAGE MAIN;
CREATE INDEX texts_stems ON texts USING gin (stems);
-- How many texts there are and how long they are on average, without reading them.
CREATE INDEX texts_size ON texts (size);
