-- Subscriptions of services, and the workers that run them.

-- name: subscriptions
SELECT json_group_array(json_array(service, event_type, finishes, ids_field, json(naming), json(needs),
                                   failed_queue, version, json(was), round_rules, per_key))
FROM subscriptions;

-- name: subscribe
INSERT INTO subscriptions
  (service, event_type, finishes, ids_field, naming, needs, failed_queue, version, was, round_rules, per_key)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (service) DO UPDATE SET
  event_type = excluded.event_type, finishes = excluded.finishes, ids_field = excluded.ids_field,
  naming = excluded.naming, needs = excluded.needs, failed_queue = excluded.failed_queue,
  version = excluded.version, was = excluded.was, round_rules = excluded.round_rules,
  per_key = excluded.per_key;

-- name: unsubscribe
DELETE FROM subscriptions WHERE service = ?;

-- name: rename_rows
-- A key is unique among the waiting rows of a service: a row that waits under both names gets another key.
UPDATE ledger SET service = ?1,
  key = iif(state = 'waiting' AND EXISTS (
    SELECT 1 FROM ledger twin WHERE twin.key = ledger.key AND twin.service = ?1 AND twin.state = 'waiting'),
    key || '/' || id, key)
WHERE service = ?2 AND state <> 'done';

-- name: rename_batches
UPDATE failed_batches SET service = ? WHERE service = ?;

-- name: unsettled_rows
SELECT json_group_array(id)
FROM (SELECT id FROM ledger WHERE service = ?1 AND state = 'waiting' AND deaths < 2
      UNION ALL SELECT id FROM ledger WHERE service = ?1 AND state = 'waiting' AND deaths >= 2
      UNION ALL SELECT id FROM ledger WHERE state = 'claimed' AND service = ?1
      LIMIT ?2);

-- name: items_of_service
SELECT json_group_array(json_array(collection, id))
FROM (SELECT d.collection, d.id FROM failed_batches b JOIN documents d ON d.failed_batch = b.id
      WHERE b.service = ? LIMIT ?);

-- name: keep_last_served
-- Runs before workers are removed. NULL: any worker, any time.
UPDATE subscriptions SET last_served = max(coalesce(last_served, 0), gone.at)
FROM (SELECT s.key AS service, max(w.last_seen) AS at
      FROM workers w, json_each(w.about, '$.services') s
      WHERE (?1 IS NULL OR w.worker = ?1) AND (?2 IS NULL OR w.last_seen < ?2) GROUP BY s.key) AS gone
WHERE subscriptions.service = gone.service;

-- name: last_served
SELECT json_group_array(json_array(service, at))
FROM (SELECT service, max(at) AS at
      FROM (SELECT service, last_served AS at FROM subscriptions WHERE last_served IS NOT NULL
            UNION ALL
            SELECT s.key, w.last_seen FROM workers w, json_each(w.about, '$.services') s)
      GROUP BY service);

-- name: workers
SELECT json_group_array(json_array(worker, json(about), last_seen)) FROM workers WHERE last_seen >= ?;

-- name: register_worker
INSERT INTO workers (worker, about, last_seen) VALUES (?, ?, ?)
ON CONFLICT (worker) DO UPDATE SET about = excluded.about, last_seen = excluded.last_seen;

-- name: unregister_worker
DELETE FROM workers WHERE worker = ?;

-- name: seen
UPDATE workers SET last_seen = ? WHERE worker = ?;

-- name: forget_workers
DELETE FROM workers WHERE last_seen < ?;

-- name: see_version
INSERT INTO versions (version, first_seen, last_seen) VALUES (?1, ?2, ?2)
ON CONFLICT (version) DO UPDATE SET last_seen = excluded.last_seen;

-- name: prune_versions
DELETE FROM versions WHERE version IN (SELECT version FROM versions ORDER BY last_seen DESC LIMIT -1 OFFSET ?);

-- name: versions
SELECT json_group_array(json_array(version, first_seen, last_seen))
FROM (SELECT * FROM versions ORDER BY first_seen, version);
