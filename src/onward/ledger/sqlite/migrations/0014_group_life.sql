-- What people decide about failure groups: closed, reopened, owner, notes.
ALTER TABLE failure_groups ADD COLUMN life TEXT NOT NULL DEFAULT '{}';

-- Rules that merge and split failure groups.
CREATE TABLE group_rules (
  id       INTEGER PRIMARY KEY AUTOINCREMENT,
  grouped  TEXT    NOT NULL,     -- the group that failures leave
  target   TEXT    NOT NULL,     -- the group that they count with
  split_by TEXT    NOT NULL,     -- empty: all failures, a merge
  value    TEXT    NOT NULL,
  at       REAL    NOT NULL,
  who      TEXT    NOT NULL,
  state    TEXT    NOT NULL,
  UNIQUE (grouped, split_by, value)
);
