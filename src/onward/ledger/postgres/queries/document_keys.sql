-- The keys by which documents are found.

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

-- name: found_page
SELECT k.doc, d.id, d.status, d.revision, d.failed_batch IS NOT NULL, o.value
FROM (SELECT doc FROM keys WHERE name = $1 AND value = $2::jsonb -> 0 AND doc > $5::bigint ORDER BY doc OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
  LEFT JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o ON true
WHERE d.collection || '' = $4
ORDER BY k.doc LIMIT $6::integer;

-- name: value_counts
SELECT k.value, d.status, count(*)
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $3
GROUP BY k.value, d.status;

-- name: highest_beside
SELECT k.value, max((o.value #>> '{}')::float8)
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  CROSS JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $4
GROUP BY k.value;

-- name: ordered_ids :column
SELECT d.id
FROM (SELECT doc FROM keys WHERE name = $1 AND value = $2::jsonb -> 0 OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
  LEFT JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o ON true
WHERE d.collection || '' = $4
ORDER BY coalesce(o.value, '0'::jsonb), k.doc LIMIT $6::integer OFFSET $5::integer;

-- name: ids_before :value
SELECT count(*)
FROM (SELECT doc FROM keys WHERE name = $1 AND value = $2::jsonb -> 0 OFFSET 0) AS k
  JOIN documents d ON d.doc = k.doc
  LEFT JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o ON true
WHERE d.collection || '' = $4
  AND (coalesce(o.value, '0'::jsonb), k.doc) < (SELECT coalesce(mo.value, '0'::jsonb), m.doc FROM documents m
                                                LEFT JOIN keys mo ON mo.doc = m.doc AND mo.name = $3
                                                WHERE m.collection = $4 AND m.id = $5);

-- name: related
SELECT DISTINCT k.value, o.value
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  CROSS JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $4;

-- name: counts_beside
SELECT k.value, o.value, count(*)
FROM jsonb_array_elements($2::jsonb) AS wanted (value) CROSS JOIN LATERAL (
  SELECT doc, value FROM keys WHERE name = $1 AND value = wanted.value OFFSET 0) AS k
  CROSS JOIN LATERAL (SELECT value FROM keys WHERE doc = k.doc AND name = $3 OFFSET 0) AS o
  JOIN documents d ON d.doc = k.doc
WHERE d.collection || '' = $4
GROUP BY k.value, o.value;

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

-- name: key_values :column
SELECT DISTINCT k.value FROM keys k
WHERE k.name = $1
  AND NOT EXISTS (SELECT 1 FROM keys o
                  WHERE o.doc = k.doc AND o.name IN (SELECT jsonb_array_elements_text($2::jsonb)));

-- name: key_values_below
SELECT DISTINCT k.value FROM keys k
WHERE k.name = $1 AND k.value < $2::jsonb -> 0 AND jsonb_typeof(k.value) = 'number'
  AND NOT EXISTS (SELECT 1 FROM keys o WHERE o.doc = k.doc AND o.name = ANY ($3::text[]))
ORDER BY k.value DESC LIMIT $4;

-- name: keyed_count :value
SELECT count(*) FROM jsonb_array_elements($2::jsonb) AS wanted (value) JOIN keys k ON k.name = $1 AND k.value = wanted.value;

-- name: titled
SELECT DISTINCT d.collection, d.id FROM keys k JOIN documents d ON d.doc = k.doc
WHERE k.name = 'title' AND (k.value #>> '{}') COLLATE "C" >= $1 AND (k.value #>> '{}') COLLATE "C" < $2 LIMIT $3;

-- name: keys_of_ids
SELECT d.id, k.value
FROM unnest($3::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT doc, id FROM documents WHERE collection = $2 AND id = wanted.id OFFSET 0) AS d
  CROSS JOIN LATERAL (SELECT value FROM keys WHERE doc = d.doc AND name = $1 OFFSET 0) AS k;
