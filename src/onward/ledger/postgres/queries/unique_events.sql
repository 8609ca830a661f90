-- Events that are published once until a time.

-- name: remember_unique
-- Returns the keys that were new, or whose time was over at `$1`. Of two transactions with the same key, the second
-- waits for the first. They sort them, so that no two wait for each other.
INSERT INTO unique_events AS known (key, until, event_id, document_id)
SELECT given ->> 0, $2::float8, given ->> 1, given ->> 2 FROM json_array_elements($3::json) AS given
ORDER BY given ->> 0
ON CONFLICT (key) DO UPDATE SET until = excluded.until, event_id = excluded.event_id, document_id = excluded.document_id
WHERE known.until <= $1::float8 RETURNING key;

-- name: unique_events
SELECT u.key, u.event_id, u.document_id
FROM unnest($1::text[]) AS wanted (key) CROSS JOIN LATERAL (
  SELECT key, event_id, document_id FROM unique_events WHERE key = wanted.key OFFSET 0) AS u;

-- name: forget_unique_events
DELETE FROM unique_events WHERE key = ANY (ARRAY (
  SELECT key FROM unique_events WHERE until < $1::float8 ORDER BY until LIMIT 5000 FOR UPDATE SKIP LOCKED));
