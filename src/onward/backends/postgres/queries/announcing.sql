-- What a wire is told.

-- name: announced_count :value
SELECT count(*) FROM (SELECT 1 FROM ledger
                      WHERE service = $1 AND state = 'waiting' AND announced > 0 LIMIT $2) AS some_rows;

-- name: to_announce :column
SELECT id FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND announced IS NULL AND due <= $2::float8
ORDER BY priority DESC, due LIMIT $3 {lock FOR UPDATE SKIP LOCKED};

-- name: to_announce_of_level :column
SELECT id FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND announced IS NULL AND due <= $2::float8
  AND priority = $4::bigint
ORDER BY due LIMIT $3 {lock FOR UPDATE SKIP LOCKED};

-- name: mark_announced
UPDATE ledger SET announced = $1::float8 WHERE id = ANY ($2::bigint[]);

-- name: announce_again
UPDATE ledger SET announced = NULL
WHERE id IN (SELECT id FROM ledger
             WHERE service = $1 AND state = 'waiting' AND announced > 0 AND announced < $2::float8
               AND due <= $3::float8
             FOR UPDATE SKIP LOCKED);

-- name: to_copy :column
SELECT id FROM ledger
WHERE state = 'dead' AND announced IS NULL AND service = ANY ($1::text[])
ORDER BY id LIMIT $2 {lock FOR UPDATE SKIP LOCKED};

-- name: due_among
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, errors
FROM ledger
WHERE id = ANY ($1::bigint[]) AND service = $2 AND state = 'waiting' AND deaths < 2 AND due <= $3::float8
ORDER BY priority DESC, due, id {lock FOR UPDATE SKIP LOCKED};
