-- When the retry job checks an unfinished document next, and the fingerprint of its last error. Each index holds
-- only the rows that its query can return.
ALTER TABLE documents ADD COLUMN check_at REAL NOT NULL DEFAULT 0;
ALTER TABLE documents ADD COLUMN fingerprint TEXT;
CREATE INDEX documents_check ON documents (check_at, collection, attempt_count)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
    AND row IS NULL AND failed_batch IS NULL;
CREATE INDEX documents_scheduled ON documents (retry_at) WHERE retry_at IS NOT NULL;
CREATE INDEX documents_fingerprint ON documents (fingerprint, collection, id) WHERE fingerprint IS NOT NULL;
CREATE INDEX documents_given_up ON documents (collection, status, id)
  WHERE status IN ('failed', 'failed_max_retries', 'discarded');
CREATE INDEX failed_batches_due ON failed_batches (retry_after);

ALTER TABLE ledger ADD COLUMN fingerprint TEXT;
CREATE INDEX ledger_dead_group ON ledger (fingerprint, id) WHERE state = 'dead';
CREATE INDEX ledger_dead_service ON ledger (service, id) WHERE state = 'dead';
CREATE INDEX ledger_dead_queue ON ledger (service, fingerprint, settled_at) WHERE state = 'dead';
CREATE INDEX ledger_archived ON ledger (id) WHERE state = 'archived';

UPDATE documents SET fingerprint = json_extract(last_error, '$.fingerprint')
  WHERE last_error IS NOT NULL AND json_valid(last_error);
UPDATE ledger SET fingerprint = coalesce(json_extract(errors, '$.last[#-1].fingerprint'),
                                         json_extract(errors, '$.first.fingerprint'))
  WHERE state = 'dead' AND errors IS NOT NULL AND json_valid(errors);

-- All failures with the same fingerprint, and what they have in common.
CREATE TABLE failure_groups (
  fingerprint      TEXT PRIMARY KEY,
  service          TEXT    NOT NULL,
  collection       TEXT,
  error_type       TEXT    NOT NULL,
  message          TEXT    NOT NULL,     -- of the last one
  place            TEXT    NOT NULL,     -- the innermost frame of user code
  traceback        TEXT    NOT NULL,
  first_seen       REAL    NOT NULL,
  last_seen        REAL    NOT NULL,
  failures         INTEGER NOT NULL,
  documents        INTEGER NOT NULL,     -- different ones
  kinds            TEXT    NOT NULL,     -- how many failures of each kind
  versions         TEXT    NOT NULL,     -- how many failures under each version of the workers
  dependencies     TEXT    NOT NULL,     -- how many failures pointed at each dependency
  processed_before INTEGER NOT NULL      -- documents of the collection that were processed when it began
);
CREATE INDEX failure_groups_seen ON failure_groups (last_seen);

-- When each version of the workers was first seen.
CREATE TABLE versions (
  version    TEXT PRIMARY KEY,
  first_seen REAL NOT NULL,
  last_seen  REAL NOT NULL
);

-- Totals and last values that outlive the processes that count.
CREATE TABLE counters (
  name  TEXT NOT NULL,
  label TEXT NOT NULL,
  value REAL NOT NULL,
  PRIMARY KEY (name, label)
) WITHOUT ROWID;

-- The process that holds each role that only one process may have.
CREATE TABLE leaders (
  role   TEXT PRIMARY KEY,
  holder TEXT NOT NULL,
  until  REAL NOT NULL
);

-- The log of changes that people made.
CREATE TABLE actions (
  id      INTEGER PRIMARY KEY,
  at      REAL    NOT NULL,
  who     TEXT    NOT NULL,
  via     TEXT    NOT NULL,
  action  TEXT    NOT NULL,
  about   TEXT    NOT NULL,
  touched INTEGER NOT NULL
);
CREATE INDEX actions_at ON actions (at);
