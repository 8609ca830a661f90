-- What people decide about failure groups: closed, reopened, owner, notes.
ALTER TABLE failure_groups ADD COLUMN life json NOT NULL DEFAULT '{}';

-- Rules that merge and split failure groups.
CREATE TABLE group_rules (
  id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  grouped  text    NOT NULL,     -- the group that failures leave
  target   text    NOT NULL,     -- the group that they count with
  split_by text    NOT NULL,     -- empty: all failures, a merge
  value    text    NOT NULL,
  at       float8  NOT NULL,
  who      text    NOT NULL,
  state    text    NOT NULL,
  UNIQUE (grouped, split_by, value)
);
