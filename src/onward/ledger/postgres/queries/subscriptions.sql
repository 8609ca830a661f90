-- Subscriptions of services, and the workers that run them.

-- name: subscriptions
SELECT service, event_type, finishes, ids_field, naming, needs, failed_queue, version, was, round_rules, per_key
FROM subscriptions;

-- name: subscribe
INSERT INTO subscriptions
  (service, event_type, finishes, ids_field, naming, needs, failed_queue, version, was, round_rules, per_key)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11)
ON CONFLICT (service) DO UPDATE SET
  event_type = excluded.event_type, finishes = excluded.finishes, ids_field = excluded.ids_field,
  naming = excluded.naming, needs = excluded.needs, failed_queue = excluded.failed_queue,
  version = excluded.version, was = excluded.was, round_rules = excluded.round_rules,
  per_key = excluded.per_key;

-- name: unsubscribe
DELETE FROM subscriptions WHERE service = $1;

-- name: rename_rows
-- A key is unique among the waiting rows of a service: a row that waits under both names gets another key.
UPDATE ledger SET service = $1,
  key = CASE WHEN state = 'waiting' AND EXISTS (
    SELECT 1 FROM ledger twin WHERE twin.key = ledger.key AND twin.service = $1 AND twin.state = 'waiting')
    THEN key || '/' || id ELSE key END
WHERE service = $2;

-- name: rename_batches
UPDATE failed_batches SET service = $1 WHERE service = $2;

-- name: unsettled_rows :column
SELECT id FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths < 2
UNION ALL SELECT id FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths >= 2
UNION ALL SELECT id FROM ledger WHERE state = 'claimed' AND service = $1
LIMIT $2;

-- name: items_of_service
SELECT d.collection, d.id FROM failed_batches b JOIN documents d ON d.failed_batch = b.id
WHERE b.service = $1 LIMIT $2;

-- name: keep_last_served
-- Runs before workers are removed. NULL: any worker, any time.
UPDATE subscriptions SET last_served = greatest(subscriptions.last_served, gone.at)
FROM (SELECT s.service, max(w.last_seen) AS at
      FROM workers w CROSS JOIN LATERAL json_object_keys(coalesce(w.about -> 'services', '{}')) AS s (service)
      WHERE ($1::text IS NULL OR w.worker = $1) AND ($2::float8 IS NULL OR w.last_seen < $2) GROUP BY 1) AS gone
WHERE subscriptions.service = gone.service;

-- name: last_served
SELECT service, max(at)
FROM (SELECT service, last_served AS at FROM subscriptions WHERE last_served IS NOT NULL
      UNION ALL
      SELECT s.service, w.last_seen
      FROM workers w CROSS JOIN LATERAL json_object_keys(coalesce(w.about -> 'services', '{}')) AS s (service)) AS seen
GROUP BY service;

-- name: workers
SELECT worker, about, last_seen FROM workers WHERE last_seen >= $1::float8;

-- name: register_worker
INSERT INTO workers (worker, about, last_seen) VALUES ($1, $2, $3)
ON CONFLICT (worker) DO UPDATE SET about = excluded.about, last_seen = excluded.last_seen;

-- name: unregister_worker
DELETE FROM workers WHERE worker = $1;

-- name: seen
UPDATE workers SET last_seen = $1 WHERE worker = $2;

-- name: forget_workers
DELETE FROM workers WHERE last_seen < $1;

-- name: see_version
INSERT INTO versions (version, first_seen, last_seen) VALUES ($1, $2, $2)
ON CONFLICT (version) DO UPDATE SET last_seen = excluded.last_seen;

-- name: prune_versions
DELETE FROM versions WHERE version = ANY (ARRAY (
  SELECT version FROM versions
  WHERE last_seen <= (SELECT last_seen FROM versions ORDER BY last_seen DESC OFFSET $1::bigint LIMIT 1)
  FOR UPDATE SKIP LOCKED));

-- name: versions
SELECT version, first_seen, last_seen FROM versions ORDER BY first_seen, version;
