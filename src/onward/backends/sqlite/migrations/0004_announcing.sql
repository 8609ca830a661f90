-- When a wire was told of a row, and of its copy in a failed queue: null, not yet; 0, there is none to tell.
-- No index knows `announced`, so that it is quickly changed: what is out is at the front of ledger_due.
ALTER TABLE ledger ADD COLUMN announced REAL DEFAULT 0;
ALTER TABLE ledger ADD COLUMN copied REAL DEFAULT 0;
CREATE INDEX ledger_uncopied ON ledger (id) WHERE state = 'dead' AND copied IS NULL;

-- Events of others that were taken in: settled ones are not kept for long, and a broker may bring them again.
CREATE TABLE strangers (
  event_id TEXT PRIMARY KEY,
  at       REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX strangers_at ON strangers (at);
