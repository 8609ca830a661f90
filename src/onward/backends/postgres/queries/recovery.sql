-- The retry job, failed batches, totals. An unfinished document without a live row is in documents_look.

-- name: lead
INSERT INTO leaders AS known (role, holder, until) VALUES ($1, $2, $3)
ON CONFLICT (role) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE known.holder = excluded.holder OR known.until <= $4 OR known.until > $3;

-- name: resign
DELETE FROM leaders WHERE role = $1 AND holder = $2;

-- name: to_look_at
SELECT collection, id
FROM (SELECT collection, id, priority, created_at, doc FROM documents
      WHERE look_at <= $1::float8
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND "row" IS NULL AND failed_batch IS NULL
        AND ($3::text[] IS NULL OR collection = ANY ($3::text[]))
      UNION
      SELECT collection, id, priority, created_at, doc FROM documents
      WHERE retry_at IS NOT NULL AND retry_at <= $1::float8 AND "row" IS NULL AND look_at <= $1::float8
        AND ($3::text[] IS NULL OR collection = ANY ($3::text[]))) AS due
ORDER BY priority DESC, created_at NULLS FIRST, doc LIMIT $2;

-- name: next_look :value
SELECT min(at)
FROM ((SELECT look_at AS at FROM documents
       WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
         AND "row" IS NULL AND failed_batch IS NULL
         AND ($1::text[] IS NULL OR collection = ANY ($1::text[]))
       ORDER BY look_at LIMIT 1)
      UNION ALL
      SELECT min(greatest(retry_at, look_at)) FROM documents
      WHERE retry_at IS NOT NULL AND "row" IS NULL
        AND ($1::text[] IS NULL OR collection = ANY ($1::text[]))) AS next;

-- name: states_by_id
SELECT d.*
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
         priority, revision, round, "row", dead_letter, source, parent, failed_batch
  FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0 {lock FOR UPDATE}) AS d;

-- name: look_later
UPDATE documents SET look_at = v.at
FROM unnest($1::text[], $2::text[], $3::float8[]) AS v (collection, id, at)
WHERE documents.collection = v.collection AND documents.id = v.id;

-- name: rows_gone :row
WITH looked_at AS (SELECT doc, collection, id, "row" FROM documents WHERE doc > $1 ORDER BY doc LIMIT $2)
SELECT (SELECT max(doc) FROM looked_at),
       (SELECT coalesce(json_agg(json_build_array(collection, id)), '[]') FROM looked_at
        WHERE "row" IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = looked_at."row" AND l.state IN ('waiting', 'claimed')));

-- name: looked_at_later
SELECT collection, count(*) FROM documents
WHERE look_at > $1::float8 AND attempt_count > 0
  AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
  AND "row" IS NULL AND failed_batch IS NULL
GROUP BY collection;

-- name: stuck
SELECT collection, count(*) FROM documents
WHERE look_at >= 0
  AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
  AND "row" IS NULL AND failed_batch IS NULL
  AND (coalesce(last_attempt_time, created_at, 0) < $1::float8
       OR attempt_count >= coalesce(($2::jsonb ->> collection)::int, $3))
GROUP BY collection;

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

-- name: hurry_batch
UPDATE failed_batches SET retry_after = $1 WHERE id = $2;

-- name: count_total
INSERT INTO counters AS known (name, label, value) VALUES ($1, $2, $3)
ON CONFLICT (name, label) DO UPDATE SET value = known.value + excluded.value;

-- name: set_gauge
INSERT INTO counters (name, label, value) VALUES ($1, $2, $3)
ON CONFLICT (name, label) DO UPDATE SET value = excluded.value;

-- name: totals
SELECT name, label, value FROM counters;
