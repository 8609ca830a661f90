-- Events on their way to other programs. A row is deleted when the broker has confirmed its message.
CREATE TABLE outbox (
  id          bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at          float8  NOT NULL,
  due         float8,                              -- null: no queue of the broker takes it
  refused     integer NOT NULL DEFAULT 0,          -- how often the broker has refused it
  event_id    text    NOT NULL,
  routing_key text    COLLATE "C" NOT NULL,
  body        text    NOT NULL
);
CREATE INDEX outbox_due ON outbox (due) WHERE due IS NOT NULL;
CREATE INDEX outbox_oldest ON outbox (at) WHERE due IS NOT NULL;
CREATE INDEX outbox_unroutable ON outbox (routing_key, id) WHERE due IS NULL;

-- The name under which this store's events leave, and what the gateway last reported.
CREATE TABLE gateway (
  one    integer PRIMARY KEY CHECK (one = 1),
  store  text NOT NULL,
  report json NOT NULL DEFAULT '{}'
);
