-- Events that are published once until a time.

-- name: remember_unique
-- Returns the keys that were new, or whose time was over at `?1`.
INSERT INTO unique_events (key, until, event_id, document_id)
SELECT json_extract(value, '$[0]'), ?2, json_extract(value, '$[1]'), json_extract(value, '$[2]') FROM json_each(?3) WHERE true
ON CONFLICT (key) DO UPDATE SET until = excluded.until, event_id = excluded.event_id, document_id = excluded.document_id
WHERE unique_events.until <= ?1 RETURNING key;

-- name: unique_events
SELECT json_group_array(json_array(key, event_id, document_id))
FROM unique_events WHERE key IN (SELECT value FROM json_each(?));

-- name: forget_unique_events
DELETE FROM unique_events WHERE key IN (SELECT key FROM unique_events WHERE until < ? ORDER BY until LIMIT 5000);
