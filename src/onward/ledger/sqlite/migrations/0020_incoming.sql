-- What other transactions of this file have published. Workers move each row to the ledger, in one transaction.
-- `format` 0: one event as JSON, of a trigger or another program; 1: documents and events of `app.publish`.
CREATE TABLE incoming (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  at       REAL    NOT NULL DEFAULT ((julianday('now') - 2440587.5) * 86400.0) CHECK (typeof(at) = 'real'),
  format   INTEGER NOT NULL DEFAULT 0 CHECK (format IN (0, 1)),
  priority INTEGER NOT NULL DEFAULT 0 CHECK (typeof(priority) = 'integer'),
  delay    REAL    NOT NULL DEFAULT 0 CHECK (typeof(delay) = 'real'),
  body     TEXT    NOT NULL
);
