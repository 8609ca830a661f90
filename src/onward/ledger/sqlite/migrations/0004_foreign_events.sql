-- Ids of events from other programs. Settled events are deleted soon, but a broker may deliver them again.
CREATE TABLE foreign_events (
  event_id TEXT PRIMARY KEY,
  at       REAL NOT NULL
) WITHOUT ROWID;
CREATE INDEX foreign_events_at ON foreign_events (at);
