-- name: insert_texts
INSERT INTO texts (doc, title, text, tsv)
SELECT doc, title, text, setweight(to_tsvector('simple', title), 'A') || to_tsvector('simple', text)
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS v (doc, title, text)
ON CONFLICT (doc) DO UPDATE SET title = excluded.title, text = excluded.text, tsv = excluded.tsv;

-- name: delete_texts
DELETE FROM texts WHERE doc = ANY ($1::bigint[]);
