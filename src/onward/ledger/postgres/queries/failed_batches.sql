-- Failed batches and their items.

-- name: set_aside
INSERT INTO failed_batches (id, service, source, errors, retry_after, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET errors = excluded.errors;

-- name: failed_batch_errors :value
SELECT errors FROM failed_batches WHERE id = $1;

-- name: failed_batches
SELECT id, service, source, errors, retry_count, retry_after, created_at,
       (SELECT coalesce(json_agg(json_build_array(collection, d.id)), '[]')
        FROM documents d WHERE d.failed_batch = b.id)
FROM failed_batches b WHERE $1::text IS NULL OR source = $1 ORDER BY b.id;

-- name: drop_empty_batches
DELETE FROM failed_batches
WHERE id = ANY ($1::text[]) AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.failed_batch = failed_batches.id)
RETURNING id, retry_count, created_at;

-- name: due_batches :column
SELECT id FROM failed_batches WHERE retry_after <= $1::float8 ORDER BY retry_after;

-- name: next_batches
SELECT service, min(retry_after) FROM failed_batches GROUP BY service;

-- name: failed_batch :row
SELECT id, service, source, errors, retry_count, retry_after, created_at,
       (SELECT coalesce(json_agg(json_build_array(collection, d.id)), '[]')
        FROM documents d WHERE d.failed_batch = b.id)
FROM failed_batches b WHERE id = $1;

-- name: idle_items
SELECT d.collection, d.id FROM documents d JOIN failed_batches b ON b.id = d.failed_batch
WHERE d.failed_batch = $1 AND d."row" IS NULL
  AND (d.last_attempt_time IS NULL OR d.last_attempt_time <= b.retry_after)
ORDER BY d.doc LIMIT $2;

-- name: claim_batch
UPDATE failed_batches SET retry_after = $1, retry_count = retry_count + 1
WHERE id = $2 AND retry_count = $3 AND retry_after <= $4;

-- name: reschedule_batch
UPDATE failed_batches SET retry_after = $1 WHERE id = $2;
