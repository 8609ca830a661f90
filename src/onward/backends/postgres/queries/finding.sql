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
ON CONFLICT (doc) DO UPDATE SET model = excluded.model, vector = excluded.vector;

-- name: delete_vectors
DELETE FROM vectors WHERE doc = ANY ($1::bigint[]);

-- name: placed
SELECT d.id, substr(d.parent, length($4) + 2), v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
WHERE v.model = $1 AND d.collection = $2 AND ($3::text IS NULL OR d.source = $3)
  AND (json_array_length($5::json) = 0 OR EXISTS (
    SELECT 1 FROM documents p WHERE p.collection = $4 AND p.id = substr(d.parent, length($4) + 2)
      AND NOT EXISTS (SELECT 1 FROM json_array_elements($5::json) f WHERE NOT EXISTS (
            SELECT 1 FROM keys k WHERE k.doc = p.doc AND k.name = f ->> 0
              AND CASE f ->> 1
                    WHEN '='  THEN k.value = (f -> 2)::jsonb
                    WHEN '>=' THEN k.value >= (f -> 2)::jsonb
                    WHEN '<'  THEN k.value < (f -> 2)::jsonb
                    ELSE k.value #>> '{}' ILIKE f ->> 2 END))));

-- name: not_placed :column
SELECT d.id FROM documents d LEFT JOIN vectors v ON v.doc = d.doc AND v.model = $1
WHERE d.collection = $2 AND d.id > $3 AND d.status IN ('processed', 'pending') AND v.doc IS NULL
ORDER BY d.id LIMIT $4;
