-- Due rows, claims and leases.

-- name: next_priority :value
-- Not max() and min(): a planner with statistics of a small table would read all waiting rows.
SELECT priority FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority < $2::bigint
ORDER BY service DESC, priority DESC, due DESC, id DESC LIMIT 1;

-- name: due_rows
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
ORDER BY due, id LIMIT $4 {lock FOR UPDATE SKIP LOCKED};

-- name: due_sample
-- The oldest and the newest due rows, with the number of failures of each, as a sample of a mixed queue.
(SELECT id, greatest(round - 1, 0) + tries + given_back, due FROM ledger
 WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
 ORDER BY due, id LIMIT $4)
UNION
(SELECT id, greatest(round - 1, 0) + tries + given_back, due FROM ledger
 WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
 ORDER BY due DESC, id DESC LIMIT $4);

-- name: due_suspects
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths >= 2 AND due <= $2::float8
ORDER BY due, id LIMIT $3 {lock FOR UPDATE SKIP LOCKED};

-- name: due_among
SELECT l.id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace
FROM unnest($1::bigint[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT * FROM ledger
  WHERE id = wanted.id AND service || '' = $2 AND state = 'waiting' AND deaths < 2
    AND due <= $3::float8
  OFFSET 0 {lock FOR UPDATE SKIP LOCKED}) AS l
ORDER BY priority DESC, due, l.id;

-- name: claimed_rows
SELECT id, token - 1, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace, service
FROM ledger WHERE state = 'claimed' AND worker = $1;

-- name: claim_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = $1, lease = $2, started = 0
WHERE id = ANY ($3::bigint[]);

-- name: renew
-- Locked rows are skipped: they are being settled, and need no lease any more.
UPDATE ledger SET lease = $1
WHERE id IN (SELECT id FROM ledger WHERE state = 'claimed' AND worker = $2 ORDER BY id FOR UPDATE SKIP LOCKED);

-- name: claims_of :column
SELECT id FROM ledger WHERE state = 'claimed' AND worker = $1 {lock ORDER BY id FOR UPDATE};

-- name: lapsed :column
SELECT id FROM ledger WHERE state = 'claimed' AND lease <= $1::float8 {lock ORDER BY id FOR UPDATE SKIP LOCKED};

-- name: next_lapse :value
SELECT min(lease) FROM ledger WHERE state = 'claimed';

-- name: next_due :value
SELECT due FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
ORDER BY due, id LIMIT 1;

-- name: next_suspect :value
SELECT due FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths >= 2 ORDER BY due LIMIT 1;

-- name: claimed_count :value
SELECT count(*) FROM ledger WHERE state = 'claimed' AND service = ANY ($1::text[]);

-- name: is_busy :value
SELECT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND service = ANY ($1::text[]))
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths < 2 AND service = ANY ($2::text[]) AND due <= $3::float8)
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths >= 2 AND service = ANY ($2::text[]) AND due <= $3::float8);

-- name: queue_counts
SELECT s.service,
       (SELECT count(*) FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths < 2)
         + (SELECT count(*) FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths >= 2),
       (SELECT count(*) FROM ledger WHERE state = 'claimed' AND service = s.service),
       (SELECT count(*) FROM ledger WHERE state = 'dead' AND service = s.service)
FROM unnest($1::text[]) AS s (service);

-- name: claims_by_worker
SELECT worker, service, count(*), sum(json_array_length(ids)), min(lease),
       coalesce(json_agg(json_build_array(collection, ids -> 0 ->> 0) ORDER BY place)
                  FILTER (WHERE place <= $1::integer AND json_array_length(ids) > 0), '[]')
FROM (SELECT worker, service, collection, ids, lease,
             row_number() OVER (PARTITION BY worker, service ORDER BY id) AS place
      FROM ledger WHERE state = 'claimed') AS claims
GROUP BY worker, service ORDER BY worker, service;

-- name: cursors :column
SELECT cursor::json FROM ledger WHERE state = 'claimed' AND service = $1 AND cursor IS NOT NULL;
