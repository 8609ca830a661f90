-- Joins: events that wait until all of their documents are final.

-- name: open_join
SELECT json_array(id, source, generation, allow_failed, kept) FROM joins WHERE key = ? AND closed = 0;

-- name: lock_joins
SELECT id FROM joins
WHERE id IN (SELECT value FROM json_each(?1))
   OR (key IN (SELECT value FROM json_each(?2)) AND closed = 0);

-- name: insert_join
INSERT INTO joins (key, allow_failed, created_at, event_type, event_id, version, data, trace, priority, notice,
                   routing_key, joined_field, source, generation)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) RETURNING id;

-- name: hold_join
UPDATE joins SET held_until = ?2, kept = ?3 WHERE id = ?1;

-- name: keep_join
UPDATE joins SET kept = 1 WHERE id = ?;

-- name: change_join
UPDATE joins SET remaining = remaining + ?2, processed = processed + ?3, failed = failed + ?4, removed = removed + ?5
WHERE id = ?1;

-- name: known_members
SELECT json_group_array(json_array(m.collection, m.id, m.holder, m.outcome))
FROM json_each(?2) AS w CROSS JOIN join_members m
WHERE m.join_id = ?1 AND m.collection = json_extract(w.value, '$[0]') AND m.id = json_extract(w.value, '$[1]');

-- name: insert_members
INSERT INTO join_members (join_id, collection, id, holder, outcome) VALUES {values}
ON CONFLICT (join_id, collection, id) DO UPDATE SET outcome = excluded.outcome;

-- name: mark_joined
UPDATE documents SET joined = 1 WHERE doc IN (SELECT value FROM json_each(?));

-- name: count_members
-- Each of `?1` is a collection, an id, an outcome, and whether it counts where no failed document is allowed.
UPDATE join_members SET outcome = json_extract(w.value, '$[2]')
FROM json_each(?1) AS w, joins j
WHERE join_members.collection = json_extract(w.value, '$[0]') AND join_members.id = json_extract(w.value, '$[1]') AND join_members.outcome = 0
  AND j.id = join_members.join_id AND (j.allow_failed = 1 OR json_extract(w.value, '$[3]') = 1)
RETURNING join_id, holder, outcome;

-- name: complete_joins
SELECT json_group_array(json_array(id, processed, failed, removed, event_type, event_id, version, data, trace, priority,
                                   notice, routing_key, joined_field, source, generation))
FROM joins
WHERE id IN (SELECT value FROM json_each(?)) AND remaining <= 0 AND closed = 0 AND held_until IS NULL;

-- name: failed_members
SELECT json_group_array(json_array(collection, id))
FROM (SELECT collection, id FROM join_members WHERE join_id = ?1 AND outcome = 2 ORDER BY collection, id LIMIT ?2);

-- name: close_join
UPDATE joins SET closed = 1 WHERE id = ?;

-- name: delete_join
DELETE FROM joins WHERE id = ?;

-- name: delete_members
DELETE FROM join_members
WHERE join_id = ?1 AND (collection, id) IN (SELECT collection, id FROM join_members WHERE join_id = ?1 LIMIT ?2);

-- name: left_joins
-- Joins that were published, or whose caller has ended before it had added all members.
SELECT json_group_array(json_array(id, closed, kept, event_type))
FROM (SELECT id, closed, kept, event_type FROM joins
      WHERE (closed = 1 OR held_until IS NOT NULL) AND (closed = 1 OR held_until < ?1) ORDER BY id LIMIT 100);

-- name: member_page
-- Members in their order, each with whether it has ended and is not counted.
SELECT json_group_array(json_array(m.join_id, m.collection, m.id,
  m.outcome = 0 AND j.created_at < ?4 AND (
    d.doc IS NULL OR d.joined = 0 OR d.status IN ('processed', 'discarded')
    OR (j.allow_failed = 1 AND d.status IN ('failed', 'failed_max_retries')))))
FROM (SELECT join_id, collection, id, outcome FROM join_members
      WHERE (join_id, collection, id) > (?1, ?2, ?3) ORDER BY join_id, collection, id LIMIT ?5) AS m
  CROSS JOIN joins j ON j.id = m.join_id
  LEFT JOIN documents d ON d.collection = m.collection AND d.id = m.id;

-- name: open_joins
SELECT json_group_array(json_array(id, event_type, event_id, remaining, processed, failed, removed, allow_failed,
                                   created_at, source))
FROM (SELECT * FROM joins WHERE closed = 0 AND id > ?1 ORDER BY id LIMIT ?2);

-- name: open_members
SELECT json_group_array(json_array(collection, id))
FROM (SELECT collection, id FROM join_members WHERE join_id = ?1 AND outcome = 0 ORDER BY collection, id LIMIT ?2);

-- name: joins_of_document
SELECT json_group_array(json_array(j.id, j.event_type, j.event_id, j.remaining, j.processed, j.failed, j.removed,
                                   j.allow_failed, j.created_at, j.source))
FROM join_members m JOIN joins j ON j.id = m.join_id
WHERE m.collection = ?1 AND m.id = ?2 AND m.outcome = 0;

-- name: join_count
SELECT count(*) FROM joins WHERE closed = 0;
