-- Roll-ups: what services did, by time.

-- name: add_rollup_parts
INSERT INTO rollup_parts (bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::float8[], $9::text[], $10::bigint[]);

-- name: take_rollup_parts
DELETE FROM rollup_parts
RETURNING bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting;

-- name: save_rollups
INSERT INTO rollups (step, bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting)
SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::bigint[], $5::bigint[], $6::bigint[], $7::bigint[],
                     $8::bigint[], $9::float8[], $10::text[], $11::bigint[])
ON CONFLICT (step, bucket, service) DO UPDATE SET
  events = excluded.events, documents = excluded.documents, failures = excluded.failures, retries = excluded.retries,
  dead_letters = excluded.dead_letters, seconds = excluded.seconds, latencies = excluded.latencies,
  waiting = excluded.waiting;

-- name: rollups
-- Parts that have not been added to the roll-ups yet count, too.
SELECT bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting
FROM rollups WHERE step = $1::bigint AND bucket BETWEEN $2::bigint AND $4::bigint AND ($3::text IS NULL OR service = $3)
UNION ALL
SELECT bucket - bucket % $1, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting
FROM rollup_parts WHERE bucket BETWEEN $2 AND $4 + $1 - 1 AND ($3 IS NULL OR service = $3);

-- name: sampled_services :column
SELECT service FROM rollup_parts WHERE bucket = $1::bigint AND waiting IS NOT NULL
UNION ALL
SELECT service FROM rollups WHERE step = 60 AND bucket = $1 AND waiting IS NOT NULL;

-- name: waiting_counts
SELECT s.service,
       (SELECT count(*) FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths < 2)
         + (SELECT count(*) FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths >= 2)
FROM unnest($1::text[]) AS s (service);

-- name: prune_rollups
DELETE FROM rollups WHERE step = $1 AND bucket < $2;
