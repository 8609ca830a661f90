-- Vectors of documents, and their changes.

-- name: insert_vectors
INSERT INTO vectors (doc, model, vector) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
ON CONFLICT (doc) DO UPDATE SET model = excluded.model, vector = excluded.vector, change = excluded.change;

-- name: delete_vectors
-- Also deletes old rows of removed_vectors. Rows that another transaction deletes are skipped, not waited for.
WITH gone AS (DELETE FROM vectors WHERE doc = ANY ($1::bigint[]) RETURNING doc),
old AS (DELETE FROM removed_vectors WHERE ctid = ANY (ARRAY(
          SELECT ctid FROM removed_vectors WHERE at < now() - interval '1 day' LIMIT 1000 FOR UPDATE SKIP LOCKED)))
INSERT INTO removed_vectors (doc) SELECT doc FROM gone;

-- name: vector_changes :row
-- $1: a snapshot. Transactions commit in another order than they begin, so a number alone does not show what is new.
SELECT pg_current_snapshot()::text, ARRAY(
  (SELECT doc FROM vectors
   WHERE change >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(change, $1::pg_snapshot)
   ORDER BY change LIMIT $2)
  UNION ALL
  (SELECT doc FROM removed_vectors
   WHERE change >= pg_snapshot_xmin($1::pg_snapshot) AND NOT pg_visible_in_snapshot(change, $1::pg_snapshot)
   ORDER BY change LIMIT $2));

-- name: last_vector_change :value
SELECT pg_current_snapshot()::text;

-- name: vectors
SELECT d.doc, d.id, substr(d.parent, length($3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = $3 AND p.id = substr(d.parent, length($3) + 2)
WHERE v.model = $1 AND d.collection = $2 AND length(v.vector) = $4
ORDER BY d.id;

-- name: vectors_of_docs
SELECT d.doc, d.id, substr(d.parent, length($3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = $3 AND p.id = substr(d.parent, length($3) + 2)
WHERE v.doc = ANY ($5::bigint[]) AND v.model = $1 AND d.collection = $2 AND length(v.vector) = $4
ORDER BY d.id;

-- name: vectors_of_parents
SELECT d.doc, d.id, p.id, p.doc, d.source, v.vector
FROM documents p JOIN documents d ON d.parent = $3 || '/' || p.id AND d.collection || '' = $2
JOIN vectors v ON v.doc = d.doc
WHERE p.collection = $3 AND p.id = ANY ($5::text[]) AND v.model = $1 AND length(v.vector) = $4
ORDER BY d.id;

-- name: docs_by_key :column
SELECT doc FROM keys
WHERE name = $1 AND CASE $2 WHEN '='  THEN value = $3::jsonb -> 0
                            WHEN '>=' THEN value >= $3::jsonb -> 0
                            WHEN '<'  THEN value < $3::jsonb -> 0
                            ELSE value #>> '{}' ILIKE $3::jsonb ->> 0 END;

-- name: ids_without_vector :column
SELECT d.id FROM documents d LEFT JOIN vectors v ON v.doc = d.doc AND v.model = $1
WHERE d.collection = $2 AND d.id > $3 AND d.status IN ('processed', 'pending') AND v.doc IS NULL
ORDER BY d.id LIMIT $4;
