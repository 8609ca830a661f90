-- Vectors of documents, their packed codes, and what waits to be packed.

-- name: insert_vectors
INSERT INTO vectors (doc, model, vector) SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[])
ON CONFLICT (doc, model) DO UPDATE SET vector = excluded.vector;

-- name: insert_waiting_vectors
-- The update waits for a transaction that packs the vector which is replaced.
INSERT INTO waiting_vectors (doc, model) SELECT * FROM unnest($1::bigint[], $2::text[])
ON CONFLICT (doc, model) DO UPDATE SET model = excluded.model;

-- name: delete_vectors
DELETE FROM vectors WHERE doc = ANY ($1::bigint[]);

-- name: delete_waiting_vectors
DELETE FROM waiting_vectors WHERE doc = ANY ($1::bigint[]);

-- name: mark_removed_vectors
INSERT INTO removed_vectors SELECT doc, model FROM vectors WHERE doc = ANY ($1::bigint[]) ON CONFLICT DO NOTHING;

-- name: mark_replaced_vectors
INSERT INTO removed_vectors SELECT doc, model FROM vectors WHERE doc = ANY ($2::bigint[]) AND model = $1
ON CONFLICT DO NOTHING;

-- name: recode_vectors_of_parents
-- Vectors of documents that were made from these (`collection/id`): their codes refer to the texts of these.
INSERT INTO waiting_vectors
SELECT v.doc, v.model FROM documents d JOIN vectors v ON v.doc = d.doc WHERE d.parent = ANY ($1::text[])
ON CONFLICT (doc, model) DO UPDATE SET model = excluded.model;

-- name: mark_vectors_of_parents
INSERT INTO removed_vectors
SELECT v.doc, v.model FROM documents d JOIN vectors v ON v.doc = d.doc WHERE d.parent = ANY ($1::text[])
ON CONFLICT DO NOTHING;

-- name: waiting_vectors_count :value
SELECT count(*) FROM waiting_vectors;

-- name: lock_waiting_vectors
-- Rows that another transaction removes or replaces are skipped, not waited for.
SELECT doc, model FROM waiting_vectors ORDER BY doc, model LIMIT $1 {lock FOR UPDATE SKIP LOCKED};

-- name: waiting_vectors
-- Each with the number of the text of its parent, if that has one. Not those whose parent's text waits itself, nor
-- those whose old code is to be removed first.
SELECT w.doc, w.model, d.collection, n.space, n.number, v.vector
FROM waiting_vectors w JOIN documents d ON d.doc = w.doc JOIN vectors v ON v.doc = w.doc AND v.model = w.model
LEFT JOIN documents p ON p.collection = split_part(d.parent, '/', 1)
  AND p.id = substr(d.parent, strpos(d.parent, '/') + 1)
LEFT JOIN text_numbers n ON n.doc = p.doc
WHERE w.doc = ANY ($1::bigint[])
  AND NOT EXISTS (SELECT 1 FROM waiting_texts t WHERE t.doc = p.doc)
  AND NOT EXISTS (SELECT 1 FROM removed_vectors r WHERE r.doc = w.doc AND r.model = w.model);

-- name: waiting_without_vector
-- A vector may have been removed while another transaction was making it wait again.
SELECT w.doc, w.model FROM waiting_vectors w LEFT JOIN vectors v ON v.doc = w.doc AND v.model = w.model
WHERE w.doc = ANY ($1::bigint[]) AND v.doc IS NULL;

-- name: waiting_vectors_of
SELECT w.doc, n.space, n.number, p.doc
FROM waiting_vectors w JOIN documents d ON d.doc = w.doc JOIN vectors v ON v.doc = w.doc AND v.model = w.model
LEFT JOIN documents p ON p.collection = split_part(d.parent, '/', 1)
  AND p.id = substr(d.parent, strpos(d.parent, '/') + 1)
LEFT JOIN text_numbers n ON n.doc = p.doc
WHERE w.model = $1 AND d.collection || '' = $2 AND length(v.vector) = $3;

-- name: settle_waiting_vectors
DELETE FROM waiting_vectors WHERE model = $1 AND doc = ANY ($2::bigint[]);

-- name: vector_space
SELECT space, mean FROM vector_spaces WHERE model = $1 AND collection = $2 AND bytes = $3 AND texts = $4;

-- name: searched_vector_spaces
SELECT space, mean, texts FROM vector_spaces WHERE model = $1 AND collection = $2 AND bytes = $3;

-- name: insert_vector_space
INSERT INTO vector_spaces (model, collection, bytes, texts, mean) VALUES ($1, $2, $3, $4, $5);

-- name: update_vector_space
UPDATE vector_spaces SET mean = $2 WHERE space = $1;

-- name: vector_spaces_of
SELECT space, bytes FROM vector_spaces WHERE model = $1;

-- name: vector_blocks
SELECT block, vectors, version FROM vector_blocks WHERE space = $1 ORDER BY block;

-- name: vector_block_contents
SELECT block, version, docs, texts, codes, scales FROM vector_blocks
WHERE space = $1 AND block = ANY ($2::integer[]) ORDER BY block;

-- name: save_vector_block
INSERT INTO vector_blocks (space, block, vectors, version, docs, texts, codes, scales)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (space, block) DO UPDATE SET vectors = excluded.vectors, version = excluded.version,
  docs = excluded.docs, texts = excluded.texts, codes = excluded.codes,
  scales = excluded.scales;

-- name: removed_vectors_count :value
SELECT count(*) FROM removed_vectors;

-- name: removed_vectors
SELECT model, doc FROM removed_vectors LIMIT $1;

-- name: delete_removed_vectors
DELETE FROM removed_vectors WHERE model = $1 AND doc = ANY ($2::bigint[]);

-- name: bare_vectors
SELECT doc, vector FROM vectors WHERE doc = ANY ($2::bigint[]) AND model = $1;

-- name: vectors_of_docs
SELECT d.id, d.parent, v.vector
FROM unnest($3::bigint[]) AS wanted (doc) JOIN vectors v ON v.doc = wanted.doc AND v.model = $1
JOIN documents d ON d.doc = v.doc
WHERE d.collection || '' = $2; -- not by the index of collections, which has nearly all documents

-- name: vectors_of_parents
SELECT d.id, d.parent, v.vector
FROM documents d JOIN vectors v ON v.doc = d.doc
WHERE d.parent = ANY ($3::text[]) AND d.collection || '' = $2 AND v.model = $1
ORDER BY d.id;

-- name: vector_counts
-- The packed vectors of each model, and those that wait: what was replaced is among both until it is packed.
SELECT s.model, sum(b.vectors)::bigint FROM vector_spaces s JOIN vector_blocks b ON b.space = s.space
WHERE s.collection = $1 GROUP BY s.model
UNION ALL
SELECT w.model, count(*) FROM waiting_vectors w JOIN documents d ON d.doc = w.doc
WHERE d.collection = $1 AND NOT EXISTS (SELECT 1 FROM removed_vectors r WHERE r.doc = w.doc AND r.model = w.model)
GROUP BY w.model;

-- name: docs_with_vector :column
SELECT v.doc FROM vectors v JOIN documents d ON d.doc = v.doc
WHERE v.doc > $3 AND v.model = $1 AND d.collection = $2 ORDER BY v.doc LIMIT $4;

-- name: delete_vectors_of_model
DELETE FROM vectors WHERE model = $1 AND doc = ANY ($2::bigint[]);

-- name: delete_vector_blocks
DELETE FROM vector_blocks WHERE space IN (SELECT space FROM vector_spaces WHERE model = $1 AND collection = $2);

-- name: delete_vector_spaces
DELETE FROM vector_spaces WHERE model = $1 AND collection = $2;

-- name: ids_without_vector :column
SELECT d.id FROM documents d LEFT JOIN vectors v ON v.doc = d.doc AND v.model = $1
WHERE d.collection = $2 AND d.id > $3 AND d.status IN ('processed', 'pending') AND v.doc IS NULL
ORDER BY d.id LIMIT $4;
