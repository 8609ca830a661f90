-- Events on their way to other programs.

-- name: insert_outgoing
INSERT INTO outbox (event_id, routing_key, body, at, due) VALUES {values};

-- name: due_outgoing
SELECT id, event_id, routing_key, body FROM outbox INDEXED BY outbox_due
WHERE due >= ?1 AND due <= ?2 ORDER BY due, id LIMIT ?3;

-- name: delete_outgoing
DELETE FROM outbox WHERE id IN (SELECT value FROM json_each(?));

-- name: defer_outgoing
-- The delay doubles with each refusal, from 1 s up.
UPDATE outbox SET due = ?1 + min(?2, 1 << min(refused, 20)), refused = refused + 1
WHERE id IN (SELECT value FROM json_each(?3));

-- name: unroutable_outgoing
UPDATE outbox SET due = NULL WHERE due IS NOT NULL AND id IN (SELECT value FROM json_each(?));

-- name: unroutable_keys
-- The oldest event of each routing key that no queue takes. A loop over the keys: there may be many events of one.
WITH RECURSIVE
  keys (k) AS (
    SELECT min(routing_key) FROM outbox INDEXED BY outbox_unroutable WHERE due IS NULL
    UNION ALL
    SELECT (SELECT min(routing_key) FROM outbox INDEXED BY outbox_unroutable WHERE due IS NULL AND routing_key > k)
    FROM keys WHERE k IS NOT NULL)
SELECT id, event_id, routing_key, body FROM outbox
WHERE id IN (SELECT (SELECT min(id) FROM outbox WHERE due IS NULL AND routing_key = k) FROM keys WHERE k IS NOT NULL);

-- name: reroute_outgoing
UPDATE outbox SET due = ?1 WHERE due IS NULL AND routing_key = ?2;

-- name: prune_unroutable
DELETE FROM outbox WHERE id IN (
  SELECT id FROM outbox WHERE due IS NULL AND (at < ?1 OR id <= (
    SELECT id FROM outbox WHERE due IS NULL ORDER BY id DESC LIMIT 1 OFFSET ?2))
  LIMIT 5000);

-- name: outbox_counts
SELECT json_array((SELECT count(*) FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL),
                  (SELECT min(at) FROM outbox INDEXED BY outbox_oldest WHERE due IS NOT NULL),
                  (SELECT count(*) FROM outbox INDEXED BY outbox_unroutable WHERE due IS NULL));

-- name: oldest_outgoing
SELECT min(at) FROM outbox INDEXED BY outbox_oldest WHERE due IS NOT NULL;

-- name: next_outgoing
SELECT min(due) FROM outbox INDEXED BY outbox_due WHERE due IS NOT NULL;

-- name: gateway_report
SELECT report FROM gateway;

-- name: store_name
SELECT json_quote(store) FROM gateway;

-- name: name_store
INSERT INTO gateway (one, store) VALUES (1, ?) ON CONFLICT (one) DO NOTHING;

-- name: report_gateway
UPDATE gateway SET report = ?;
