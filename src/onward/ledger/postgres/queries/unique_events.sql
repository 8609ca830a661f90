-- Events that are published once until a time.

-- name: remember_unique
-- Returns the keys that were new, or whose time was over at `$1`. A publication that comes late may have had its whole
-- time before that of the stored one, which stays as it is then. Of two transactions with the same key, the second
-- waits for the first. They sort them, so that no two wait for each other.
INSERT INTO unique_events AS known (key, since, until, event_id, document_id)
SELECT given ->> 0, $1::float8, $2::float8, given ->> 1, given ->> 2 FROM json_array_elements($3::json) AS given
ORDER BY given ->> 0
ON CONFLICT (key) DO UPDATE SET
  since = greatest(known.since, excluded.since), until = greatest(known.until, excluded.until),
  event_id = CASE WHEN $2::float8 <= known.since THEN known.event_id ELSE excluded.event_id END,
  document_id = CASE WHEN $2::float8 <= known.since THEN known.document_id ELSE excluded.document_id END
WHERE known.until <= $1::float8 OR $2::float8 <= known.since RETURNING key;

-- name: unique_events
SELECT u.key, u.event_id, u.document_id
FROM unnest($1::text[]) AS wanted (key) CROSS JOIN LATERAL (
  SELECT key, event_id, document_id FROM unique_events WHERE key = wanted.key OFFSET 0) AS u;

-- name: forget_unique_events
DELETE FROM unique_events WHERE key = ANY (ARRAY (
  SELECT key FROM unique_events WHERE until < $1::float8 ORDER BY until LIMIT $2 FOR UPDATE SKIP LOCKED));
