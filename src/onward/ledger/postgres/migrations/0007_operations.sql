-- Actions that people have begun: what they are about, how far they have come, how they ended.
CREATE TABLE operations (
  id         text    COLLATE "C" PRIMARY KEY,
  began_at   float8  NOT NULL,
  ended_at   float8,
  lease      float8  NOT NULL,              -- a running one that is not saved until then is interrupted
  run        integer NOT NULL DEFAULT 1,    -- grows each time it is continued
  stopping   integer NOT NULL DEFAULT 0,    -- 1: a person has asked it to stop
  done       bigint  NOT NULL DEFAULT 0,
  total      bigint  NOT NULL DEFAULT 0,
  status     text    NOT NULL,
  title      text    NOT NULL,
  action     text    NOT NULL,              -- the class of the action; empty: nothing that can be run again
  parameters json    NOT NULL,
  who        text    NOT NULL,
  via        text    NOT NULL,
  back       text    NOT NULL,              -- the page of the console from which it was begun
  text       text    NOT NULL DEFAULT '',
  problem    text    NOT NULL DEFAULT '',
  cursor     json    NOT NULL DEFAULT 'null' -- from where the action can go on
);
CREATE INDEX operations_began ON operations (began_at, id);
