-- Events on their way to other programs.

-- name: insert_outgoing
INSERT INTO outbox (event_id, routing_key, body, at, due)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::float8[], $5::float8[]);

-- name: due_outgoing
SELECT id, event_id, routing_key, body FROM outbox
WHERE due >= $1 AND due <= $2 ORDER BY due, id LIMIT $3::int;

-- name: delete_outgoing
DELETE FROM outbox WHERE id = ANY ($1::bigint[]);

-- name: defer_outgoing
-- The delay doubles with each refusal, from 1 s up.
UPDATE outbox SET due = $1::float8 + least($2::float8, power(2, least(refused, 20))), refused = refused + 1
WHERE id = ANY ($3::bigint[]);

-- name: unroutable_outgoing
UPDATE outbox SET due = NULL WHERE due IS NOT NULL AND id = ANY ($1::bigint[]);

-- name: unroutable_keys
-- The oldest event of each routing key that no queue takes. A loop over the keys: there may be many events of one.
WITH RECURSIVE
  keys (k) AS (
    (SELECT routing_key FROM outbox WHERE due IS NULL ORDER BY routing_key LIMIT 1)
    UNION ALL
    SELECT (SELECT routing_key FROM outbox WHERE due IS NULL AND routing_key > k ORDER BY routing_key LIMIT 1)
    FROM keys WHERE k IS NOT NULL)
SELECT one.id, one.event_id, one.routing_key, one.body FROM keys
CROSS JOIN LATERAL (SELECT id, event_id, routing_key, body FROM outbox
                    WHERE due IS NULL AND routing_key = k ORDER BY id LIMIT 1) AS one
WHERE k IS NOT NULL;

-- name: reroute_outgoing
UPDATE outbox SET due = $1 WHERE due IS NULL AND routing_key = $2;

-- name: prune_unroutable
DELETE FROM outbox WHERE id = ANY (ARRAY (
  SELECT id FROM outbox WHERE due IS NULL AND (at < $1 OR id <= (
    SELECT id FROM outbox WHERE due IS NULL ORDER BY id DESC LIMIT 1 OFFSET $2::int))
  LIMIT 5000));

-- name: outbox_counts :row
SELECT (SELECT count(*) FROM outbox WHERE due IS NOT NULL),
       (SELECT at FROM outbox WHERE due IS NOT NULL ORDER BY at LIMIT 1),
       (SELECT count(*) FROM outbox WHERE due IS NULL);

-- name: oldest_outgoing :value
SELECT at FROM outbox WHERE due IS NOT NULL ORDER BY at LIMIT 1;

-- name: next_outgoing :value
SELECT due FROM outbox WHERE due IS NOT NULL ORDER BY due LIMIT 1;

-- name: gateway_report :value
SELECT report FROM gateway;

-- name: store_name :value
SELECT store FROM gateway;

-- name: name_store
INSERT INTO gateway (one, store) VALUES (1, $1) ON CONFLICT (one) DO NOTHING;

-- name: report_gateway
UPDATE gateway SET report = $1;
