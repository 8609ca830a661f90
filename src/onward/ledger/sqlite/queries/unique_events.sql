-- Events that are published once until a time.

-- name: remember_unique
-- Returns the keys that were new, or whose time was over at `?1`. A publication that comes late may have had its whole
-- time before that of the stored one, which stays as it is then.
INSERT INTO unique_events (key, since, until, event_id, document_id)
SELECT json_extract(value, '$[0]'), ?1, ?2, json_extract(value, '$[1]'), json_extract(value, '$[2]')
FROM json_each(?3) WHERE true
ON CONFLICT (key) DO UPDATE SET
  since = max(unique_events.since, excluded.since), until = max(unique_events.until, excluded.until),
  event_id = iif(?2 <= unique_events.since, unique_events.event_id, excluded.event_id),
  document_id = iif(?2 <= unique_events.since, unique_events.document_id, excluded.document_id)
WHERE unique_events.until <= ?1 OR ?2 <= unique_events.since RETURNING key;

-- name: unique_events
SELECT json_group_array(json_array(key, event_id, document_id))
FROM unique_events WHERE key IN (SELECT value FROM json_each(?));

-- name: forget_unique_events
DELETE FROM unique_events WHERE key IN (SELECT key FROM unique_events WHERE until < ? ORDER BY until LIMIT ?);
