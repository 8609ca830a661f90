-- The time after which no try of an event begins any more, and that of the round of a document; NULL: none.
ALTER TABLE ledger ADD COLUMN expires REAL;
ALTER TABLE documents ADD COLUMN expires REAL;
-- Seconds after `at`.
ALTER TABLE incoming ADD COLUMN expires REAL CHECK (expires IS NULL OR typeof(expires) = 'real');

-- Events that are published once until a time; `document_id`: the first document of the event, or empty.
CREATE TABLE unique_events (
  key         TEXT PRIMARY KEY,
  since       REAL NOT NULL,
  until       REAL NOT NULL,
  event_id    TEXT NOT NULL,
  document_id TEXT NOT NULL DEFAULT ''
) WITHOUT ROWID;
CREATE INDEX unique_events_until ON unique_events (until);
