-- Failed batches and their items.

-- name: set_aside
INSERT INTO failed_batches (id, service, source, errors, retry_after, created_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET errors = excluded.errors;

-- name: failed_batch_errors
SELECT errors FROM failed_batches WHERE id = ?;

-- name: failed_batches
SELECT json_group_array(json_array(
         id, service, source, json(errors), retry_count, retry_after, created_at,
         json((SELECT json_group_array(json_array(collection, d.id)) FROM documents d WHERE d.failed_batch = b.id))))
FROM failed_batches b WHERE ?1 IS NULL OR source = ?1;

-- name: drop_empty_batches
DELETE FROM failed_batches
WHERE id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.failed_batch = failed_batches.id)
RETURNING id, retry_count, created_at;

-- name: due_batches
SELECT json_group_array(id) FROM (SELECT id FROM failed_batches WHERE retry_after <= ? ORDER BY retry_after);

-- name: next_batches
-- Not as JSON, which rounds times: a caller that waits until this time must not wake up too early.
SELECT service, min(retry_after) FROM failed_batches GROUP BY service;

-- name: failed_batch
SELECT json_array(
         id, service, source, json(errors), retry_count, retry_after, created_at,
         json((SELECT json_group_array(json_array(collection, d.id)) FROM documents d WHERE d.failed_batch = b.id)))
FROM failed_batches b WHERE id = ?;

-- name: idle_items
SELECT json_group_array(json_array(collection, id))
FROM (SELECT d.collection, d.id FROM documents d JOIN failed_batches b ON b.id = d.failed_batch
      WHERE d.failed_batch = ? AND d.row IS NULL
        AND (d.last_attempt_time IS NULL OR d.last_attempt_time <= b.retry_after)
      ORDER BY d.doc LIMIT ?);

-- name: claim_batch
UPDATE failed_batches SET retry_after = ?1, retry_count = retry_count + 1
WHERE id = ?2 AND retry_count = ?3 AND retry_after <= ?4;

-- name: reschedule_batch
UPDATE failed_batches SET retry_after = ? WHERE id = ?;
