-- The same tables as in SQLite, for many writers. Ids sort by their bytes, as in SQLite.
CREATE TABLE schema_version (
  version integer NOT NULL,
  serves  integer NOT NULL               -- the oldest version whose workers can go on with this schema
);

-- Each process takes a block of row ids at a time.
CREATE SEQUENCE documents_blocks;
CREATE SEQUENCE ledger_blocks;

-- The state of each document. Bodies are in a table of their own, so that a scan of many documents reads little.
CREATE TABLE documents (
  doc               bigint  PRIMARY KEY,
  check_at           float8  NOT NULL DEFAULT 0,
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
CREATE INDEX documents_check ON documents (check_at, collection, attempt_count)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
    AND "row" IS NULL AND failed_batch IS NULL;
CREATE INDEX documents_scheduled ON documents (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX documents_fingerprint ON documents (fingerprint, collection, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX documents_given_up ON documents (collection, status, id)
  WHERE status IN ('failed', 'failed_max_retries', 'discarded');
-- `doc > 0` is always true. It limits this index to statements that contain it, so that others use documents_check.
CREATE INDEX documents_unfinished ON documents (collection, id)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded') AND doc > 0;

CREATE TABLE bodies (
  doc  bigint PRIMARY KEY,
  body text   NOT NULL
);

-- One row per event and consuming service, until it is settled. Columns with a fixed width that are never null come
-- first, then those in indexes: a change of state reads all of these.
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
  given_back  integer NOT NULL DEFAULT 0,        -- failures that were a dependency's, and not charged
  openings    integer NOT NULL DEFAULT 0,        -- how often its failures helped to open a breaker
  round       integer NOT NULL DEFAULT 0,
  generation  integer NOT NULL DEFAULT 0,
  state       text    NOT NULL,
  service     text    COLLATE "C" NOT NULL,
  event_type  text    NOT NULL,
  event_id    text    NOT NULL,
  key         text    COLLATE "C" NOT NULL,
  worker      text,
  settled_at  float8,
  source      text    COLLATE "C",
  fingerprint text    COLLATE "C",
  lease       float8,
  collection  text    COLLATE "C",        -- of the documents that the service finishes
  ids         json    NOT NULL DEFAULT '[]',
  data        text    NOT NULL,
  trace       text,
  batch       integer,
  cursor      text,
  errors      text,
  failed_at   float8,                     -- when it failed for the first time
  failed_trace text,                      -- the trace that its last failed try has kept
  reason      text,
  raw         bytea
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0.02, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
-- Each index holds only the rows that its query can return, so that settled rows cost nothing.
CREATE INDEX ledger_due ON ledger (service, priority, due, id) WHERE state = 'waiting' AND deaths < 2;
CREATE INDEX ledger_suspect ON ledger (service, due, id) WHERE state = 'waiting' AND deaths >= 2;
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
-- If two transactions add the same event, one of them conflicts here and is repeated.
CREATE UNIQUE INDEX ledger_key ON ledger (key, service) WHERE state = 'waiting';

-- Rows that were settled lately. Not in the ledger: to append here and delete there costs half as much as a change
-- of state, which updates every index of the ledger.
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
  version      integer NOT NULL,
  was          json    NOT NULL DEFAULT '[]',  -- former names of the service
  last_served  float8                          -- when a worker that runs it, and is gone, was last seen
);

-- A source's generation grows when it is forgotten: works that were begun before are refused.
CREATE TABLE sources (
  source     text    COLLATE "C" PRIMARY KEY,
  generation integer NOT NULL
);

-- Ids of events from other programs. Settled events are deleted soon, but a broker may deliver them again.
CREATE TABLE foreign_events (
  event_id text   COLLATE "C" PRIMARY KEY,
  at       float8 NOT NULL
);
CREATE INDEX foreign_events_at ON foreign_events (at);

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
CREATE INDEX openings_opened ON openings (dependency, opened_at);

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

-- Fields by which documents can be found, as their document class declares. A value is a text or a number.
CREATE TABLE keys (
  doc   bigint NOT NULL,
  name  text   COLLATE "C" NOT NULL,
  value jsonb  NOT NULL,
  PRIMARY KEY (doc, name, value)
);
CREATE INDEX keys_value ON keys (name, value, doc);

CREATE TABLE vectors (
  doc    bigint PRIMARY KEY,
  model  text   NOT NULL,
  vector bytea  NOT NULL,
  change xid8   NOT NULL DEFAULT pg_current_xact_id()  -- the transaction that has placed it
);
-- A process that keeps vectors in memory reads the later ones by this index.
CREATE INDEX vectors_change ON vectors (change);

-- Vectors that were removed within the last day.
CREATE TABLE removed_vectors (
  doc    bigint      NOT NULL,
  change xid8        NOT NULL DEFAULT pg_current_xact_id(),
  at     timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX removed_vectors_change ON removed_vectors (change);
CREATE INDEX removed_vectors_at ON removed_vectors (at);

-- The number of documents, updated with every commit: counting them would read them all.
-- Each connection has its own rows, so that simultaneous commits do not wait for each other.
CREATE TABLE status_counts (
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

-- When each version of the workers was first seen.
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

-- The process that holds each role that only one process may have.
CREATE TABLE leaders (
  role   text   PRIMARY KEY,
  holder text   NOT NULL,
  until  float8 NOT NULL
);

-- The log of changes that people made.
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

-- Blobs, in parts of a bounded size. A blob without a digest is still being written and cannot be found. One with
-- `put_at` -infinity is being removed, and nothing is added to it.
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

-- Texts for full-text search. Words are compared by their stem. There are no stop words: every word can be searched.
-- Not "porter", which takes "is" for the plural of "i".
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
  quoted     text     NOT NULL,
  -- Stems of the title (weight A), the text (weight D) and the quoted text (weight C), with gaps between them.
  stems      tsvector NOT NULL
);
-- Ranking reads the stems of many texts: they are stored in the row, the texts themselves out of line.
ALTER TABLE texts ALTER COLUMN stems SET STORAGE MAIN;
CREATE INDEX texts_stems ON texts USING gin (stems);
-- The number of texts and their average length, without reading them.
CREATE INDEX texts_size ON texts (size);
