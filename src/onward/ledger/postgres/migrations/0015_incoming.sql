-- What transactions of other connections have published. Workers move each row to the ledger, in one transaction.
-- `format` 0: one event as JSON, of `publish` or another program; 1: documents and events of `app.publish`.
CREATE TABLE incoming (
  id       bigint  GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  at       float8  NOT NULL DEFAULT extract(epoch FROM clock_timestamp()),
  format   integer NOT NULL DEFAULT 0 CHECK (format IN (0, 1)),
  priority integer NOT NULL DEFAULT 0,
  delay    float8  NOT NULL DEFAULT 0,
  body     text    NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);

-- Commits that notify wait for each other. So of all transactions that are open, only one notifies: whoever has the
-- lock. Workers find the rows of the others when they look at the table, within a second.
CREATE FUNCTION notify_incoming() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
  IF pg_try_advisory_xact_lock(hashtextextended('onward/incoming/' || TG_TABLE_SCHEMA, 0)) THEN
    PERFORM pg_notify('onward_incoming_' || left(md5(TG_TABLE_SCHEMA), 8), '');
  END IF;
  RETURN NULL;
END $$;
CREATE TRIGGER incoming_notifies AFTER INSERT ON incoming FOR EACH STATEMENT EXECUTE FUNCTION notify_incoming();

-- For triggers and programs in other languages. The event is checked when a worker moves it to the ledger.
CREATE FUNCTION publish(
  event_type text, data jsonb DEFAULT '{}', event_id text DEFAULT NULL, delay float8 DEFAULT 0, priority integer DEFAULT 0
) RETURNS text LANGUAGE plpgsql SET search_path FROM CURRENT AS $$
DECLARE
  id text := coalesce(publish.event_id, gen_random_uuid()::text);
BEGIN
  IF coalesce(publish.event_type, '') = '' THEN
    RAISE EXCEPTION 'publish: the event type is empty; give the name of an event class' USING ERRCODE = '22023';
  END IF;
  IF jsonb_typeof(publish.data) IS DISTINCT FROM 'object' THEN
    RAISE EXCEPTION 'publish: the data of % is no JSON object; give one, as of jsonb_build_object()', publish.event_type
      USING ERRCODE = '22023';
  END IF;
  IF publish.delay IS NULL OR publish.delay IN ('NaN', 'Infinity', '-Infinity') THEN
    RAISE EXCEPTION 'publish: a delay is a number of seconds, not %', publish.delay USING ERRCODE = '22023';
  END IF;
  IF publish.priority IS NULL OR publish.priority NOT BETWEEN -1000000 AND 1000000 THEN
    RAISE EXCEPTION 'publish: a priority is between -1,000,000 and 1,000,000, not %', publish.priority
      USING ERRCODE = '22023';
  END IF;
  INSERT INTO incoming (priority, delay, body) VALUES (
    publish.priority, publish.delay,
    jsonb_build_object('event_type', publish.event_type, 'event_id', id, 'data', publish.data)::text);
  RETURN id;
END $$;
