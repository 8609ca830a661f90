-- Events that are published when all documents of a list are final. Workers from before this version do not count
-- members; newer ones count those later (`sweep_joins`).
CREATE TABLE joins (
  id           bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  remaining    integer NOT NULL DEFAULT 0,    -- members that are not counted yet
  processed    integer NOT NULL DEFAULT 0,
  failed       integer NOT NULL DEFAULT 0,
  removed      integer NOT NULL DEFAULT 0,
  allow_failed integer NOT NULL,
  closed       integer NOT NULL DEFAULT 0,    -- 1: the event is published; what is left of the join is deleted later
  held_until   float8,                        -- until then, a caller adds members, and nothing is published
  kept    integer NOT NULL DEFAULT 1,    -- 0: if the caller that adds members ends, it is deleted; 1: it is published
  created_at   float8  NOT NULL,
  version      bigint  NOT NULL,
  priority     integer NOT NULL DEFAULT 0,
  notice       integer NOT NULL DEFAULT 0,
  generation   integer NOT NULL DEFAULT 0,
  key          text    COLLATE "C" NOT NULL,  -- the idempotency key of the event as it was given
  source       text    COLLATE "C",
  event_type   text    NOT NULL,
  event_id     text    NOT NULL,
  routing_key  text    NOT NULL DEFAULT '',
  trace        text,
  joined_field text,                          -- the field of the event that gets the counts
  data         text    NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE UNIQUE INDEX joins_key ON joins (key) WHERE closed = 0;
CREATE INDEX joins_left ON joins (id) WHERE closed = 1 OR held_until IS NOT NULL;

-- A member stays until its join is closed, so that it is counted once. `outcome` is a `MemberOutcome`.
CREATE TABLE join_members (
  join_id    bigint  NOT NULL,
  holder     integer NOT NULL DEFAULT 0,      -- 1: its handler adds more members; if it is processed, it is not counted
  outcome    integer NOT NULL DEFAULT 0,
  collection text    COLLATE "C" NOT NULL,
  id         text    COLLATE "C" NOT NULL,
  PRIMARY KEY (join_id, collection, id)
) WITH (autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
CREATE INDEX join_members_open ON join_members (collection, id) WHERE outcome = 0;

-- 1: it is or was a member of a join, which is looked for when the document becomes final.
ALTER TABLE documents ADD COLUMN joined integer NOT NULL DEFAULT 0;
