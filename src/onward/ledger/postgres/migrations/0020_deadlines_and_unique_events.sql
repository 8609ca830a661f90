-- The time after which no try of an event begins any more, and that of the round of a document; NULL: none.
ALTER TABLE ledger ADD COLUMN expires float8;
ALTER TABLE documents ADD COLUMN expires float8;
-- Seconds after `at`.
ALTER TABLE incoming ADD COLUMN expires float8;

-- Events that are published once until a time; `document_id`: the first document of the event, or empty.
CREATE TABLE unique_events (
  key         text PRIMARY KEY,
  since       float8 NOT NULL,
  until       float8 NOT NULL,
  event_id    text NOT NULL,
  document_id text NOT NULL DEFAULT ''
);
CREATE INDEX unique_events_until ON unique_events (until);

-- The same function with a deadline; a function cannot get a further parameter otherwise.
DROP FUNCTION publish(text, jsonb, text, float8, integer);
CREATE FUNCTION publish(
  event_type text, data jsonb DEFAULT '{}', event_id text DEFAULT NULL, delay float8 DEFAULT 0, priority integer DEFAULT 0,
  expires float8 DEFAULT NULL
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
  IF publish.expires IN ('NaN', 'Infinity') OR publish.expires <= 0 OR publish.expires <= publish.delay THEN
    RAISE EXCEPTION 'publish: expires is a number of seconds from now, more than the delay (%), not %',
      publish.delay, publish.expires USING ERRCODE = '22023';
  END IF;
  INSERT INTO incoming (priority, delay, expires, body) VALUES (
    publish.priority, publish.delay, publish.expires,
    jsonb_build_object('event_type', publish.event_type, 'event_id', id, 'data', publish.data)::text);
  RETURN id;
END $$;
