-- Events on their way to other programs. A row is deleted when the broker has confirmed its message.
CREATE TABLE outbox (
  id          INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used twice: a row is deleted by its id, after it was sent
  event_id    TEXT    NOT NULL,
  routing_key TEXT    NOT NULL,
  body        TEXT    NOT NULL,
  at          REAL    NOT NULL,
  due         REAL,                                -- null: no queue of the broker takes it
  refused     INTEGER NOT NULL DEFAULT 0           -- how often the broker has refused it
);
CREATE INDEX outbox_due ON outbox (due) WHERE due IS NOT NULL;
CREATE INDEX outbox_oldest ON outbox (at) WHERE due IS NOT NULL;
CREATE INDEX outbox_unroutable ON outbox (routing_key, id) WHERE due IS NULL;

-- The name under which this store's events leave, and what the gateway last reported.
CREATE TABLE gateway (
  one    INTEGER PRIMARY KEY CHECK (one = 1),
  store  TEXT NOT NULL,
  report TEXT NOT NULL DEFAULT '{}'
);
