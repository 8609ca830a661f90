-- Roll-ups: what services did, by time.

-- name: add_rollup_parts
INSERT INTO rollup_parts (bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting)
VALUES {values};

-- name: take_rollup_parts
DELETE FROM rollup_parts
RETURNING bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting;

-- name: save_rollups
INSERT INTO rollups (step, bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting)
VALUES {values}
ON CONFLICT (step, bucket, service) DO UPDATE SET
  events = excluded.events, documents = excluded.documents, failures = excluded.failures, retries = excluded.retries,
  dead_letters = excluded.dead_letters, seconds = excluded.seconds, latencies = excluded.latencies,
  waiting = excluded.waiting;

-- name: rollups
-- Parts that have not been added to the roll-ups yet count, too.
SELECT json_group_array(json_array(bucket, service, events, documents, failures, retries, dead_letters, seconds,
                                   latencies, waiting))
FROM (SELECT bucket, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting
      FROM rollups WHERE step = ?1 AND bucket BETWEEN ?2 AND ?4 AND (?3 IS NULL OR service = ?3)
      UNION ALL
      SELECT bucket - bucket % ?1, service, events, documents, failures, retries, dead_letters, seconds, latencies, waiting
      FROM rollup_parts WHERE bucket BETWEEN ?2 AND ?4 + ?1 - 1 AND (?3 IS NULL OR service = ?3));

-- name: sampled_services
SELECT json_group_array(service)
FROM (SELECT service FROM rollup_parts WHERE bucket = ?1 AND waiting IS NOT NULL
      UNION ALL
      SELECT service FROM rollups WHERE step = 60 AND bucket = ?1 AND waiting IS NOT NULL);

-- name: waiting_counts
SELECT json_group_array(json_array(value,
         (SELECT count(*) FROM ledger WHERE service = value AND state = 'waiting' AND deaths < 2)
           + (SELECT count(*) FROM ledger WHERE service = value AND state = 'waiting' AND deaths >= 2)))
FROM json_each(?);

-- name: prune_rollups
DELETE FROM rollups WHERE step = ? AND bucket < ?;
