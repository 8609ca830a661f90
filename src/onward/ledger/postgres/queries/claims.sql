-- Due rows, claims and leases.

-- name: priorities :column
-- The priorities of a service's waiting rows, from the highest to the lowest. Not max() and min(): a planner with
-- statistics of a small table would read all waiting rows.
WITH RECURSIVE level (priority) AS (
  (SELECT priority FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths < 2
   ORDER BY service DESC, priority DESC, due DESC, id DESC LIMIT 1)
  UNION ALL
  SELECT (SELECT priority FROM ledger
          WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority < level.priority
          ORDER BY service DESC, priority DESC, due DESC, id DESC LIMIT 1)
  FROM level WHERE level.priority IS NOT NULL)
SELECT priority FROM level WHERE priority IS NOT NULL;

-- name: due_rows
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace, expires, due
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
  AND due >= $3::float8 AND due <= $4::float8
ORDER BY due, id LIMIT $5 {lock FOR UPDATE SKIP LOCKED};

-- name: due_sample
-- The oldest and the newest due rows, with the number of failures of each, as a sample of a mixed queue.
(SELECT id, greatest(round - 1, 0) + tries + given_back, due FROM ledger
 WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
   AND due >= $3::float8 AND due <= $4::float8
 ORDER BY due, id LIMIT $5)
UNION
(SELECT id, greatest(round - 1, 0) + tries + given_back, due FROM ledger
 WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
   AND due >= $3::float8 AND due <= $4::float8
 ORDER BY due DESC, id DESC LIMIT $5);

-- name: due_suspects
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace, expires, due
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths >= 2 AND due <= $2::float8
ORDER BY due, id LIMIT $3 {lock FOR UPDATE SKIP LOCKED};

-- name: due_among
SELECT l.id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace, expires, due
FROM unnest($1::bigint[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT * FROM ledger
  WHERE id = wanted.id AND service || '' = $2 AND state = 'waiting' AND deaths < 2
    AND due <= $3::float8
  OFFSET 0 {lock FOR UPDATE SKIP LOCKED}) AS l
ORDER BY priority DESC, due, l.id;

-- name: claimed_rows
SELECT id, token - 1, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace, expires, due, service
FROM ledger WHERE state = 'claimed' AND worker = $1;

-- name: claim_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = $1, lease = NULL, started = 0
WHERE id = ANY ($2::bigint[]);

-- name: hold_lease
-- Not for each claim: only if the lease would end a second later.
INSERT INTO leases AS held (worker, until) VALUES ($1, $2)
ON CONFLICT (worker) DO UPDATE SET until = excluded.until WHERE held.until <= excluded.until - 1;

-- name: renew_lease
INSERT INTO leases AS held (worker, until) VALUES ($1, $2)
ON CONFLICT (worker) DO UPDATE SET until = excluded.until;

-- name: end_lease
UPDATE leases SET until = $1 WHERE worker = $2 AND until > $1;

-- name: forget_leases
DELETE FROM leases WHERE until < $1
  AND NOT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND ledger.worker = leases.worker);

-- name: claims_of :column
SELECT id FROM ledger WHERE state = 'claimed' AND worker = $1 {lock ORDER BY id FOR UPDATE};

-- name: lapsed :column
SELECT l.id
FROM leases CROSS JOIN LATERAL (
  SELECT id FROM ledger WHERE state = 'claimed' AND worker = leases.worker
  OFFSET 0 {lock FOR UPDATE SKIP LOCKED}) AS l
WHERE leases.until <= $1::float8;

-- name: unleased :column
-- Claims of workers without a lease: those of an older version, or of a commit that came after their lease was forgotten.
SELECT id FROM ledger
WHERE state = 'claimed' AND (lease IS NULL OR lease <= $1::float8)
  AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.worker = ledger.worker)
{lock ORDER BY id FOR UPDATE SKIP LOCKED};

-- name: next_lapse :value
SELECT min(until) FROM leases
WHERE EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND ledger.worker = leases.worker);

-- name: pulse
-- All that a worker without work asks for: when the next row of each service is due, whether a lease has lapsed, the
-- breakers, and whether something waits in `incoming`. For services of `$1` that is exact; for those of `$2` only
-- rows of these priorities are seen that are not below these floors.
SELECT 'due', s.service, d.due
FROM unnest($1::text[]) AS s (service) CROSS JOIN LATERAL (
  WITH RECURSIVE level (priority) AS (
    (SELECT priority FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths < 2
     ORDER BY service DESC, priority DESC, due DESC, id DESC LIMIT 1)
    UNION ALL
    SELECT (SELECT priority FROM ledger
            WHERE service = s.service AND state = 'waiting' AND deaths < 2 AND priority < level.priority
            ORDER BY service DESC, priority DESC, due DESC, id DESC LIMIT 1)
    FROM level WHERE level.priority IS NOT NULL)
  SELECT min((SELECT due FROM ledger
              WHERE service = s.service AND state = 'waiting' AND deaths < 2 AND priority = level.priority
              ORDER BY due, id LIMIT 1)) AS due
  FROM level WHERE level.priority IS NOT NULL) AS d
WHERE d.due IS NOT NULL
UNION ALL
SELECT 'due', s.service, d.due
FROM unnest($2::text[], $3::bigint[], $4::float8[]) AS s (service, priority, floor) CROSS JOIN LATERAL (
  SELECT due FROM ledger
  WHERE service = s.service AND state = 'waiting' AND deaths < 2 AND priority = s.priority AND due >= s.floor
  ORDER BY due, id LIMIT 1) AS d
UNION ALL
SELECT 'lapsed', w.worker, w.until
FROM leases w CROSS JOIN LATERAL (
  SELECT 1 FROM ledger WHERE state = 'claimed' AND ledger.worker = w.worker LIMIT 1) AS held
WHERE w.until <= $5::float8
UNION ALL
SELECT 'breaker', breaker::text, NULL FROM breakers
UNION ALL
SELECT 'incoming', '', NULL WHERE EXISTS (SELECT 1 FROM incoming);

-- name: next_suspects
SELECT s.service, d.due
FROM unnest($1::text[]) AS s (service) CROSS JOIN LATERAL (
  SELECT due FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths >= 2
  ORDER BY due, id LIMIT 1) AS d;

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
SELECT worker, service, count(*), sum(json_array_length(ids)),
       coalesce((SELECT until FROM leases WHERE leases.worker = claims.worker), min(lease)),
       coalesce(json_agg(json_build_array(collection, ids -> 0 ->> 0) ORDER BY place)
                  FILTER (WHERE place <= $1::integer AND json_array_length(ids) > 0), '[]')
FROM (SELECT worker, service, collection, ids, lease,
             row_number() OVER (PARTITION BY worker, service ORDER BY id) AS place
      FROM ledger WHERE state = 'claimed') AS claims
GROUP BY worker, service ORDER BY worker, service;

-- name: cursors :column
SELECT cursor::json FROM ledger WHERE state = 'claimed' AND service = $1 AND cursor IS NOT NULL;
