-- The state of each document. Bodies are in a table of their own, so that a scan of many documents reads little.
CREATE TABLE documents (
  doc               INTEGER PRIMARY KEY,
  collection        TEXT    NOT NULL,
  id                TEXT    NOT NULL,
  status            TEXT    NOT NULL DEFAULT 'pending',
  attempt_count     INTEGER NOT NULL DEFAULT 0,
  last_attempt_time REAL,
  created_at        REAL,
  updated_at        REAL,
  last_error        TEXT,
  attempts          TEXT,
  retry_at          REAL,
  priority          INTEGER NOT NULL DEFAULT 0,
  revision          INTEGER NOT NULL DEFAULT 1,
  round             INTEGER NOT NULL DEFAULT 0,
  row               INTEGER,            -- the ledger row of its current round, while that is not settled
  dead_letter       INTEGER,            -- its dead letter, until it succeeds
  source            TEXT,
  parent            TEXT,               -- 'collection/id' of the document it was made from
  size              INTEGER NOT NULL DEFAULT 0,
  UNIQUE (collection, id)
);
CREATE INDEX documents_parent ON documents (parent) WHERE parent IS NOT NULL;
CREATE INDEX documents_source ON documents (source) WHERE source IS NOT NULL;

CREATE TABLE bodies (
  doc  INTEGER PRIMARY KEY,
  body TEXT NOT NULL
);

-- One row per event and consuming service, until it is settled; then kept for a while.
CREATE TABLE ledger (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used twice: documents point here
  service    TEXT    NOT NULL,
  state      TEXT    NOT NULL,
  event_id   TEXT    NOT NULL,
  event_type TEXT    NOT NULL,
  version    INTEGER NOT NULL,
  data       TEXT    NOT NULL,
  timestamp  REAL    NOT NULL,
  trace      TEXT,
  key        TEXT    NOT NULL,
  collection TEXT,                                -- of the documents that the service finishes
  ids        TEXT    NOT NULL DEFAULT '[]',
  round      INTEGER NOT NULL DEFAULT 0,
  priority   INTEGER NOT NULL DEFAULT 0,
  due        REAL    NOT NULL,
  tries      INTEGER NOT NULL DEFAULT 0,
  not_ready  INTEGER NOT NULL DEFAULT 0,
  given_back INTEGER NOT NULL DEFAULT 0,          -- failures that were a dependency's, and not charged
  openings   INTEGER NOT NULL DEFAULT 0,          -- how often its failures helped to open a breaker
  able       REAL    NOT NULL DEFAULT 0,
  deaths     INTEGER NOT NULL DEFAULT 0,
  lapses     INTEGER NOT NULL DEFAULT 0,
  started    INTEGER NOT NULL DEFAULT 0,
  token      INTEGER NOT NULL DEFAULT 0,
  lease      REAL,
  worker     TEXT,
  batch      INTEGER,
  cursor     TEXT,
  errors     TEXT,
  failed_at  REAL,                                -- when it failed for the first time
  failed_trace TEXT,                              -- the trace that its last failed try has kept
  source     TEXT,
  generation INTEGER NOT NULL DEFAULT 0,
  reason     TEXT,
  raw        BLOB,
  settled_at REAL
);
-- Each index holds only the rows that its query can return, so that settled rows cost nothing.
CREATE INDEX ledger_due ON ledger (service, priority, due, id) WHERE state = 'waiting' AND deaths < 2;
CREATE INDEX ledger_suspect ON ledger (service, due) WHERE state = 'waiting' AND deaths >= 2;
CREATE INDEX ledger_claimed ON ledger (worker) WHERE state = 'claimed';
CREATE INDEX ledger_done ON ledger (settled_at) WHERE state = 'done';
CREATE INDEX ledger_dead ON ledger (id) WHERE state = 'dead';
CREATE INDEX ledger_unrouted ON ledger (event_type) WHERE state = 'unrouted';
CREATE INDEX ledger_unrouted_due ON ledger (due) WHERE state = 'unrouted';
-- Not only for waiting rows: keys are random, and each change of state would write another page of the index.
CREATE INDEX ledger_key ON ledger (key);
CREATE INDEX ledger_event ON ledger (event_id);
CREATE INDEX ledger_source ON ledger (source) WHERE source IS NOT NULL;

CREATE TABLE subscriptions (
  service      TEXT PRIMARY KEY,
  event_type   TEXT NOT NULL,
  finishes     TEXT,
  ids_field    TEXT,
  naming       TEXT NOT NULL,
  needs        TEXT NOT NULL,
  failed_queue TEXT NOT NULL,
  version      INTEGER NOT NULL,
  was          TEXT NOT NULL DEFAULT '[]',          -- former names of the service
  last_served  REAL                                 -- when a worker that runs it, and is gone, was last seen
);

-- A source's generation grows when it is forgotten: works that were begun before are refused.
CREATE TABLE sources (
  source     TEXT PRIMARY KEY,
  generation INTEGER NOT NULL
);

CREATE TABLE workers (
  worker    TEXT PRIMARY KEY,
  about     TEXT NOT NULL,
  last_seen REAL NOT NULL
);

CREATE TABLE breakers (
  dependency TEXT PRIMARY KEY,
  breaker    TEXT NOT NULL
);

CREATE TABLE openings (
  dependency TEXT NOT NULL,
  opened_at  REAL NOT NULL,
  closed_at  REAL,
  reason     TEXT NOT NULL,
  remedy     TEXT NOT NULL
);
CREATE INDEX openings_opened ON openings (dependency, opened_at);
