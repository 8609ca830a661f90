-- Full text: texts, the packed index of their terms, and what waits to be packed.

-- name: insert_texts
INSERT OR REPLACE INTO texts (doc, title, text, quoted) VALUES {values};

-- name: insert_waiting_texts
INSERT OR REPLACE INTO waiting_texts (doc, collection, terms, weights, length, date, facets) VALUES {values};

-- name: delete_texts
DELETE FROM texts WHERE doc IN (SELECT value FROM json_each(?));

-- name: delete_waiting_texts
DELETE FROM waiting_texts WHERE doc IN (SELECT value FROM json_each(?));

-- name: mark_removed_texts
INSERT OR IGNORE INTO removed_texts
SELECT space, number FROM text_numbers WHERE doc IN (SELECT value FROM json_each(?));

-- name: delete_text_numbers
DELETE FROM text_numbers WHERE doc IN (SELECT value FROM json_each(?));

-- name: waiting_texts_count
SELECT count(*) FROM waiting_texts;

-- name: waiting_texts
SELECT w.doc, w.collection, d.source, w.terms, w.weights, w.length, w.date, w.facets, t.title, t.text, t.quoted
FROM waiting_texts w CROSS JOIN documents d ON d.doc = w.doc
LEFT JOIN texts t ON t.doc = w.doc AND w.terms IS NULL -- only where the terms are missing
ORDER BY w.doc LIMIT ?;

-- name: waiting_texts_of
SELECT w.doc, w.collection, d.source, w.terms, w.weights, w.length, w.date, w.facets, t.title, t.text, t.quoted
FROM waiting_texts w CROSS JOIN documents d ON d.doc = w.doc
LEFT JOIN texts t ON t.doc = w.doc AND w.terms IS NULL
WHERE w.collection = ? ORDER BY w.doc;

-- name: insert_text_numbers
INSERT OR REPLACE INTO text_numbers (doc, space, number) VALUES {values};

-- name: numbers_of_docs
SELECT doc, number FROM text_numbers WHERE doc IN (SELECT value FROM json_each(?));

-- name: docs_of_numbers
SELECT number, doc FROM text_numbers WHERE space = ? AND number IN (SELECT value FROM json_each(?));

-- name: numbers_of_ids
SELECT d.id, n.number, d.doc FROM documents d LEFT JOIN text_numbers n ON n.doc = d.doc
WHERE d.collection = ? AND d.id IN (SELECT value FROM json_each(?));

-- name: texts_of_docs
SELECT doc, title, text, quoted FROM texts WHERE doc IN (SELECT value FROM json_each(?));

-- name: ids_of_docs
SELECT doc, id FROM documents WHERE doc IN (SELECT value FROM json_each(?));

-- name: text_blocks
SELECT block, texts, live, words, parts, stale, version, merged FROM text_blocks WHERE space = ? ORDER BY block;

-- name: full_text_blocks
-- Blocks whose parts are to be merged: full ones, those with many parts, and those with many removed texts.
SELECT space, block, merged FROM text_blocks
WHERE merged IS NOT NULL OR parts >= ?2 OR (parts > 1 AND texts >= ?1) ORDER BY merged IS NULL, space, block LIMIT 1;

-- name: save_text_block
INSERT OR REPLACE INTO text_blocks (space, block, texts, live, words, parts, stale, version, merged)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?);

-- name: text_columns
SELECT block, data FROM text_columns
WHERE space = ?1 AND block IN (SELECT value FROM json_each(?3)) AND name = ?2 ORDER BY block;

-- name: text_columns_of_block
SELECT name, data FROM text_columns WHERE space = ? AND block = ?;

-- name: save_text_columns
INSERT OR REPLACE INTO text_columns (space, block, name, data) VALUES {values};

-- name: insert_postings
INSERT INTO postings (space, block, term, part, texts, data) VALUES {values};

-- name: postings
SELECT block, term, data FROM postings
WHERE space = ?1 AND block IN (SELECT value FROM json_each(?2)) AND term IN (SELECT value FROM json_each(?3))
ORDER BY block, term, part;

-- name: term_counts
SELECT term, sum(texts) FROM postings
WHERE space = ?1 AND block IN (SELECT value FROM json_each(?2)) AND term IN (SELECT value FROM json_each(?3))
GROUP BY term;

-- name: postings_after
SELECT term, part, data FROM postings WHERE space = ? AND block = ? AND term > ? ORDER BY term, part LIMIT ?;

-- name: delete_postings
DELETE FROM postings
WHERE space = ?1 AND block = ?2 AND term IN (SELECT value FROM json_each(?3));

-- name: terms_between
-- The terms from ?3 to before ?4, and the number of texts that have each.
SELECT term, sum(texts) AS texts_with_it FROM postings
WHERE space = ?1 AND block IN (SELECT value FROM json_each(?2)) AND term >= ?3 AND term < ?4
GROUP BY term ORDER BY texts_with_it DESC, term LIMIT ?5;

-- name: removed_texts
SELECT number FROM removed_texts WHERE space = ?;

-- name: removed_texts_count
SELECT count(*) FROM removed_texts;

-- name: spaces_with_removed_texts
SELECT DISTINCT space FROM removed_texts;

-- name: delete_removed_texts
DELETE FROM removed_texts WHERE space = ? AND number IN (SELECT value FROM json_each(?));

-- name: insert_labels
INSERT OR IGNORE INTO text_labels (name, value) VALUES {values};

-- name: labels_of_values
SELECT value, label FROM text_labels WHERE name = ?1 AND value IN (SELECT value FROM json_each(?2));

-- name: values_of_labels
SELECT label, value FROM text_labels WHERE label IN (SELECT value FROM json_each(?));

-- name: labels_named
SELECT label, value FROM text_labels WHERE name = ? ORDER BY label;
