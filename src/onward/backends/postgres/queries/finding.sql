-- Keys, texts and vectors.

-- name: insert_keys
INSERT INTO keys (doc, name, value)
SELECT (row ->> 0)::bigint, row ->> 1, (row -> 2)::jsonb FROM json_array_elements($1::json) AS row
ON CONFLICT DO NOTHING;

-- name: delete_keys
DELETE FROM keys WHERE doc = ANY ($1::bigint[]);

-- name: found
SELECT k.value, d.id, d.status, d.revision, d.failed_batch IS NOT NULL
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $3;

-- name: keyed_ids
SELECT d.id
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $3;

-- name: related
SELECT DISTINCT k.value, o.value
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  CROSS JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $4;

-- name: unfinished :column
SELECT DISTINCT k.value
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $3
  AND ((d.status = 'pending' AND d.failed_batch IS NULL) OR EXISTS (
        SELECT 1 FROM documents c
        WHERE c.parent = $3 || '/' || d.id AND c.collection || '' = $4
          AND c.status = 'pending' AND c.failed_batch IS NULL));

-- name: children_of
SELECT parent, id, status, revision, failed_batch IS NOT NULL
FROM documents
WHERE parent = ANY ($1::text[]) AND collection || '' = $2 AND ($3::text IS NULL OR status <> $3);

-- name: keyed :column
SELECT DISTINCT value FROM keys WHERE name = $1;

-- name: insert_vectors
INSERT INTO vectors (doc, model, vector) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
ON CONFLICT (doc) DO UPDATE SET model = excluded.model, vector = excluded.vector, change = excluded.change;

-- name: delete_vectors
-- What is known of those that went before is of no use any more; nobody waits for others who find that out.
WITH gone AS (DELETE FROM vectors WHERE doc = ANY ($1::bigint[]) RETURNING doc),
old AS (DELETE FROM displacings WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM displacings WHERE at < now() - interval '1 day' LIMIT 1000 FOR UPDATE SKIP LOCKED)))
INSERT INTO displacings (doc) SELECT doc FROM gone;

-- name: placings :row
-- $1: a snapshot. Transactions commit in another order than they begin: so a number alone does not tell what is new.
SELECT pg_current_snapshot()::text, ARRAY(
  (SELECT doc FROM vectors
   WHERE change >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(change, $1::pg_snapshot)
   ORDER BY change LIMIT $2)
  UNION ALL
  (SELECT doc FROM displacings
   WHERE change >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(change, $1::pg_snapshot)
   ORDER BY change LIMIT $2));

-- name: last_placing :value
SELECT pg_current_snapshot()::text;

-- name: space
SELECT d.doc, d.id, substr(d.parent, length($3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = $3 AND p.id = substr(d.parent, length($3) + 2)
WHERE v.model = $1 AND d.collection = $2 AND length(v.vector) = $4
ORDER BY d.id;

-- name: space_of
SELECT d.doc, d.id, substr(d.parent, length($3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = $3 AND p.id = substr(d.parent, length($3) + 2)
WHERE v.doc = ANY ($5::bigint[]) AND v.model = $1 AND d.collection = $2 AND length(v.vector) = $4
ORDER BY d.id;

-- name: space_among
SELECT d.doc, d.id, p.id, p.doc, d.source, v.vector
FROM documents p JOIN documents d ON d.parent = $3 || '/' || p.id AND d.collection || '' = $2
JOIN vectors v ON v.doc = d.doc
WHERE p.collection = $3 AND p.id = ANY ($5::text[]) AND v.model = $1 AND length(v.vector) = $4
ORDER BY d.id;

-- name: keyed_docs :column
SELECT doc FROM keys
WHERE name = $1 AND CASE $2 WHEN '='  THEN value = $3::jsonb -> 0
                            WHEN '>=' THEN value >= $3::jsonb -> 0
                            WHEN '<'  THEN value < $3::jsonb -> 0
                            ELSE value #>> '{}' ILIKE $3::jsonb ->> 0 END;

-- name: not_placed :column
SELECT d.id FROM documents d LEFT JOIN vectors v ON v.doc = d.doc AND v.model = $1
WHERE d.collection = $2 AND d.id > $3 AND d.status IN ('processed', 'pending') AND v.doc IS NULL
ORDER BY d.id LIMIT $4;
