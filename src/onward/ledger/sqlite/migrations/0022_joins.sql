-- Events that are published when all documents of a list are final.
CREATE TABLE joins (
  id           INTEGER PRIMARY KEY AUTOINCREMENT,
  key          TEXT    NOT NULL,              -- the idempotency key of the event as it was given
  remaining    INTEGER NOT NULL DEFAULT 0,    -- members that are not counted yet
  processed    INTEGER NOT NULL DEFAULT 0,
  failed       INTEGER NOT NULL DEFAULT 0,
  removed      INTEGER NOT NULL DEFAULT 0,
  allow_failed INTEGER NOT NULL,
  closed       INTEGER NOT NULL DEFAULT 0,    -- 1: the event is published; what is left of the join is deleted later
  held_until   REAL,                          -- until then, a caller adds members, and nothing is published
  kept    INTEGER NOT NULL DEFAULT 1,    -- 0: if the caller that adds members ends, it is deleted; 1: it is published
  created_at   REAL    NOT NULL,
  event_type   TEXT    NOT NULL,
  event_id     TEXT    NOT NULL,
  version      INTEGER NOT NULL,
  data         TEXT    NOT NULL,
  trace        TEXT,
  priority     INTEGER NOT NULL DEFAULT 0,
  notice       INTEGER NOT NULL DEFAULT 0,
  routing_key  TEXT    NOT NULL DEFAULT '',
  joined_field TEXT,                          -- the field of the event that gets the counts
  source       TEXT,
  generation   INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX joins_key ON joins (key) WHERE closed = 0;
CREATE INDEX joins_left ON joins (id) WHERE closed = 1 OR held_until IS NOT NULL;

-- A member stays until its join is closed, so that it is counted once. `outcome` is a `MemberOutcome`.
CREATE TABLE join_members (
  join_id    INTEGER NOT NULL,
  collection TEXT    NOT NULL,
  id         TEXT    NOT NULL,
  holder     INTEGER NOT NULL DEFAULT 0,      -- 1: its handler adds more members; if it is processed, it is not counted
  outcome    INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (join_id, collection, id)
) WITHOUT ROWID;
CREATE INDEX join_members_open ON join_members (collection, id) WHERE outcome = 0;

-- 1: it is or was a member of a join, which is looked for when the document becomes final.
ALTER TABLE documents ADD COLUMN joined INTEGER NOT NULL DEFAULT 0;
