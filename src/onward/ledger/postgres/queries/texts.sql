-- Full text: texts, the packed index of their terms, and what waits to be packed.

-- name: insert_texts
INSERT INTO texts (doc, title, text, quoted)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[])
ON CONFLICT (doc) DO UPDATE SET title = excluded.title, text = excluded.text, quoted = excluded.quoted;

-- name: insert_waiting_texts
INSERT INTO waiting_texts (doc, collection, terms, weights, length, date, facets)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::bytea[], $4::bytea[], $5::integer[], $6::float8[], $7::text[])
ON CONFLICT (doc) DO UPDATE SET terms = excluded.terms, weights = excluded.weights, length = excluded.length,
  date = excluded.date, facets = excluded.facets;

-- name: delete_texts
DELETE FROM texts WHERE doc = ANY ($1::bigint[]);

-- name: delete_waiting_texts
DELETE FROM waiting_texts WHERE doc = ANY ($1::bigint[]);

-- name: mark_removed_texts
INSERT INTO removed_texts SELECT space, number FROM text_numbers WHERE doc = ANY ($1::bigint[])
ON CONFLICT DO NOTHING;

-- name: delete_text_numbers
DELETE FROM text_numbers WHERE doc = ANY ($1::bigint[]);

-- name: waiting_texts_count :value
SELECT count(*) FROM waiting_texts;

-- name: waiting_texts
-- Rows that another transaction removes or replaces are skipped, not waited for.
SELECT w.doc, w.collection, d.source, w.terms, w.weights, w.length, w.date, w.facets, t.title, t.text, t.quoted
FROM waiting_texts w JOIN documents d ON d.doc = w.doc
LEFT JOIN texts t ON t.doc = w.doc AND w.terms IS NULL -- only where the terms are missing
ORDER BY w.doc LIMIT $1 {lock FOR UPDATE OF w SKIP LOCKED};

-- name: waiting_texts_of
SELECT w.doc, w.collection, d.source, w.terms, w.weights, w.length, w.date, w.facets, t.title, t.text, t.quoted
FROM waiting_texts w JOIN documents d ON d.doc = w.doc
LEFT JOIN texts t ON t.doc = w.doc AND w.terms IS NULL
WHERE w.collection = $1 ORDER BY w.doc;

-- name: insert_text_numbers
INSERT INTO text_numbers (doc, space, number)
SELECT * FROM unnest($1::bigint[], $2::integer[], $3::integer[])
ON CONFLICT (doc) DO UPDATE SET space = excluded.space, number = excluded.number;

-- name: numbers_of_docs
SELECT doc, number FROM text_numbers WHERE doc = ANY ($1::bigint[]);

-- name: docs_of_numbers
SELECT number, doc FROM text_numbers WHERE space = $1 AND number = ANY ($2::integer[]);

-- name: numbers_of_ids
SELECT d.id, n.number, d.doc FROM documents d LEFT JOIN text_numbers n ON n.doc = d.doc
WHERE d.collection = $1 AND d.id = ANY ($2::text[]);

-- name: texts_of_docs
SELECT doc, title, text, quoted FROM texts WHERE doc = ANY ($1::bigint[]);

-- name: ids_of_docs
SELECT doc, id FROM documents WHERE doc = ANY ($1::bigint[]);

-- name: text_blocks
SELECT block, texts, live, words, parts, stale, version, merged FROM text_blocks WHERE space = $1 ORDER BY block;

-- name: full_text_blocks
-- Blocks whose parts are to be merged: full ones, those with many parts, and those with many removed texts.
SELECT space, block, merged FROM text_blocks
WHERE merged IS NOT NULL OR parts >= $2 OR (parts > 1 AND texts >= $1) ORDER BY merged IS NULL, space, block LIMIT 1;

-- name: save_text_block
INSERT INTO text_blocks (space, block, texts, live, words, parts, stale, version, merged)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
ON CONFLICT (space, block) DO UPDATE SET texts = excluded.texts, live = excluded.live, words = excluded.words,
  parts = excluded.parts, stale = excluded.stale, version = excluded.version, merged = excluded.merged;

-- name: text_columns
SELECT block, data FROM text_columns
WHERE space = $1 AND block = ANY ($3::integer[]) AND name = $2 ORDER BY block;

-- name: text_columns_of_block
SELECT name, data FROM text_columns WHERE space = $1 AND block = $2;

-- name: save_text_columns
INSERT INTO text_columns (space, block, name, data)
SELECT * FROM unnest($1::integer[], $2::integer[], $3::text[], $4::bytea[])
ON CONFLICT (space, block, name) DO UPDATE SET data = excluded.data;

-- name: insert_postings
INSERT INTO postings (space, block, term, part, texts, data)
SELECT * FROM unnest($1::integer[], $2::integer[], $3::text[], $4::integer[], $5::integer[], $6::bytea[]);

-- name: postings
SELECT block, term, data FROM postings
WHERE space = $1 AND block = ANY ($2::integer[]) AND term = ANY ($3::text[])
ORDER BY block, term, part;

-- name: term_counts
SELECT term, sum(texts) FROM postings
WHERE space = $1 AND block = ANY ($2::integer[]) AND term = ANY ($3::text[])
GROUP BY term;

-- name: postings_after
SELECT term, part, data FROM postings WHERE space = $1 AND block = $2 AND term > $3 ORDER BY term, part LIMIT $4;

-- name: delete_postings
DELETE FROM postings WHERE space = $1 AND block = $2 AND term = ANY ($3::text[]);

-- name: terms_between
-- The terms from $3 to before $4, and the number of texts that have each.
SELECT term, sum(texts) AS texts_with_it FROM postings
WHERE space = $1 AND block = ANY ($2::integer[]) AND term >= $3 AND term < $4
GROUP BY term ORDER BY texts_with_it DESC, term LIMIT $5;

-- name: removed_texts
SELECT number FROM removed_texts WHERE space = $1;

-- name: removed_texts_count :value
SELECT count(*) FROM removed_texts;

-- name: spaces_with_removed_texts
SELECT DISTINCT space FROM removed_texts;

-- name: delete_removed_texts
DELETE FROM removed_texts WHERE space = $1 AND number = ANY ($2::integer[]);

-- name: insert_labels
INSERT INTO text_labels (name, value) SELECT * FROM unnest($1::text[], $2::text[]) ON CONFLICT DO NOTHING;

-- name: labels_of_values
SELECT value, label FROM text_labels
WHERE name = $1 AND md5(value) IN (SELECT md5(value) FROM unnest($2::text[]) AS value);

-- name: values_of_labels
SELECT label, value FROM text_labels WHERE label = ANY ($1::integer[]);

-- name: labels_named
SELECT label, value FROM text_labels WHERE name = $1 ORDER BY label;
