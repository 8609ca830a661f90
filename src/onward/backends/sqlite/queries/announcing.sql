-- What a wire is told.

-- name: announced_count
SELECT count(*) FROM (SELECT 1 FROM ledger INDEXED BY ledger_announced
                      WHERE service = ? AND state = 'waiting' AND announced > 0 LIMIT ?);

-- name: to_announce
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_unannounced
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND announced IS NULL AND due <= ?
      ORDER BY priority DESC, due LIMIT ?);

-- name: to_announce_of_level
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_unannounced
      WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND announced IS NULL AND due <= ?2 AND priority = ?4
      ORDER BY due LIMIT ?3);

-- name: mark_announced
UPDATE ledger SET announced = ? WHERE id IN (SELECT value FROM json_each(?));

-- name: announce_again
UPDATE ledger INDEXED BY ledger_announced SET announced = NULL
WHERE service = ?1 AND state = 'waiting' AND announced > 0 AND announced < ?2 AND due <= ?3;

-- name: to_copy
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_uncopied
      WHERE state = 'dead' AND announced IS NULL AND service IN (SELECT value FROM json_each(?1))
      ORDER BY id LIMIT ?2);

-- name: due_among
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, errors))
FROM (SELECT * FROM ledger
      WHERE id IN (SELECT value FROM json_each(?1)) AND service = ?2 AND state = 'waiting' AND deaths < 2 AND due <= ?3
      ORDER BY priority DESC, due, id);
