-- What a wire is told.

-- name: foremost
SELECT json_group_array(announced)
FROM (SELECT announced FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ? AND due <= ? ORDER BY due, id LIMIT ?);

-- name: to_announce
SELECT json_group_array(id)
FROM (SELECT id FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ? AND due <= ? AND (announced IS NULL OR announced = 0)
      ORDER BY due, id LIMIT ?);

-- name: mark_announced
UPDATE ledger SET announced = ? WHERE id IN (SELECT value FROM json_each(?));

-- name: announce_again
UPDATE ledger SET announced = NULL
WHERE id IN (SELECT id FROM (SELECT id, announced FROM ledger
                             WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND priority = ?2 AND due <= ?3
                             ORDER BY due, id LIMIT ?5)
             WHERE announced < ?4);

-- name: to_copy
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_uncopied
      WHERE state = 'dead' AND copied IS NULL AND service IN (SELECT value FROM json_each(?1))
      ORDER BY id LIMIT ?2);

-- name: mark_copied
UPDATE ledger SET copied = ? WHERE id IN (SELECT value FROM json_each(?));

-- What was announced was due, by a clock that may be a little ahead of this one.
-- name: due_among
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, errors))
FROM (SELECT * FROM ledger NOT INDEXED
      WHERE id IN (SELECT value FROM json_each(?1)) AND service = ?2 AND state = 'waiting' AND deaths < 2
        AND (due <= ?3 OR announced > 0)
      ORDER BY priority DESC, due, id);
