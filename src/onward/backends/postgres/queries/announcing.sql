-- What a wire is told.

-- name: foremost :column
SELECT announced FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
ORDER BY due, id LIMIT $4;

-- name: to_announce :column
SELECT id FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
  AND (announced IS NULL OR announced = 0)
ORDER BY due, id LIMIT $4 {lock FOR UPDATE SKIP LOCKED};

-- name: mark_announced
UPDATE ledger SET announced = $1::float8 WHERE id = ANY ($2::bigint[]);

-- name: announce_again
UPDATE ledger SET announced = NULL
WHERE id IN (SELECT id FROM (SELECT id, announced FROM ledger
                             WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
                               AND due <= $3::float8
                             ORDER BY due, id LIMIT $5 FOR UPDATE SKIP LOCKED) AS foremost
             WHERE announced < $4::float8);

-- name: to_copy :column
SELECT id FROM ledger
WHERE state = 'dead' AND copied IS NULL AND service = ANY ($1::text[])
ORDER BY id LIMIT $2 {lock FOR UPDATE SKIP LOCKED};

-- name: mark_copied
UPDATE ledger SET copied = $1::float8 WHERE id = ANY ($2::bigint[]);

-- What was announced was due, by a clock that may be a little ahead of this one.
-- name: due_among
SELECT l.id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, errors
FROM unnest($1::bigint[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT * FROM ledger
  WHERE id = wanted.id AND service || '' = $2 AND state = 'waiting' AND deaths < 2
    AND (due <= $3::float8 OR announced > 0)
  OFFSET 0 {lock FOR UPDATE SKIP LOCKED}) AS l
ORDER BY priority DESC, due, l.id;
