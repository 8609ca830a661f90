-- Actions that people have begun: what they are about, how far they have come, how they ended.
CREATE TABLE operations (
  id         TEXT PRIMARY KEY,
  title      TEXT    NOT NULL,
  action     TEXT    NOT NULL,              -- the class of the action; empty: nothing that can be run again
  parameters TEXT    NOT NULL,              -- a JSON object
  who        TEXT    NOT NULL,
  via        TEXT    NOT NULL,
  back       TEXT    NOT NULL,              -- the page of the console from which it was begun
  began_at   REAL    NOT NULL,
  ended_at   REAL,
  status     TEXT    NOT NULL,
  lease      REAL    NOT NULL,              -- a running one that is not saved until then is interrupted
  run        INTEGER NOT NULL DEFAULT 1,    -- grows each time it is continued
  stopping   INTEGER NOT NULL DEFAULT 0,    -- 1: a person has asked it to stop
  done       INTEGER NOT NULL DEFAULT 0,
  total      INTEGER NOT NULL DEFAULT 0,
  text       TEXT    NOT NULL DEFAULT '',
  problem    TEXT    NOT NULL DEFAULT '',
  cursor     TEXT    NOT NULL DEFAULT 'null' -- JSON: from where the action can go on
);
CREATE INDEX operations_began ON operations (began_at, id);
