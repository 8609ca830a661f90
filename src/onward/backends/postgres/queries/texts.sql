-- Full text, ranked by BM25.

-- name: insert_texts
INSERT INTO texts (doc, title, text, size, stems)
SELECT doc, title, text, size,
       -- A lexeme that is nobody's word keeps phrases from reaching from the title into the text.
       ts_delete(setweight(to_tsvector('words', title_words), 'A') || ''' '':1'::tsvector
                 || to_tsvector('words', text_words), ' ')
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::integer[], $5::text[], $6::text[])
     AS new (doc, title, text, size, title_words, text_words)
ON CONFLICT (doc) DO UPDATE
SET title = excluded.title, text = excluded.text, size = excluded.size, stems = excluded.stems;

-- name: delete_texts
DELETE FROM texts WHERE doc = ANY ($1::bigint[]);

-- name: match_texts
-- $1: what `searching.text_query` writes. What is in more than half of the texts says nothing about any of them:
-- it finds, but does not rank, unless there is nothing else; nor do more than the 32 rarest terms.
-- ts_rank_cd counts occurrences here, those in titles twice; k1 = 1.2, b = 0.75, as in the embedded store.
WITH totals AS MATERIALIZED (SELECT count(*)::float8 AS texts, avg(size)::float8 AS size FROM texts),
asked AS MATERIALIZED (
  SELECT term, term || ($1::jsonb ->> 'where') AS there,
         (SELECT count(*) FROM texts WHERE stems @@ to_tsquery('words', term))::float8 AS texts
  FROM jsonb_array_elements_text($1::jsonb -> 'terms') AS term),
ranking AS (
  SELECT there, greatest(ln((total - texts + 0.5) / (texts + 0.5)), 1e-6) AS weight
  FROM (SELECT asked.*, totals.texts AS total, bool_or(asked.texts * 2 <= totals.texts) OVER () AS some_are_rare
        FROM asked, totals WHERE asked.texts > 0) counted
  WHERE texts * 2 <= total OR NOT some_are_rare
  ORDER BY texts LIMIT 32),
telling AS MATERIALIZED (
  SELECT array_agg(to_tsquery('words', there)) AS terms, array_agg(weight) AS weights,
         to_tsquery('words', '(' || string_agg(there, ' | ') || ')' || ($1::jsonb ->> 'without')) AS query
  FROM ranking),
scored AS (
  SELECT texts.doc,
         (SELECT sum(weight * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * texts.size / totals.size)))
          FROM (SELECT weight, 2 * ts_rank_cd('{0.5, 0.5, 0.5, 1}', whole.stems, term)::float8 AS tf
                FROM unnest(telling.terms, telling.weights) AS one (term, weight) OFFSET 0) counted) AS score
  FROM telling, totals, texts, LATERAL (SELECT texts.stems || ''::tsvector AS stems OFFSET 0) whole  -- unpacked once
  WHERE texts.stems @@ (SELECT query FROM telling)),
found AS (
  SELECT doc, max(score) AS score
  FROM (SELECT doc, score FROM scored
        UNION ALL
        SELECT doc, 1e-9 FROM texts WHERE stems @@ to_tsquery('words', $1::jsonb ->> 'query')) every
  GROUP BY doc)
SELECT d.id, found.score
FROM found JOIN documents d ON d.doc = found.doc
WHERE d.collection = $2 AND ($3::text IS NULL OR d.source = $3)
  AND (json_array_length($4::json) = 0 OR NOT EXISTS (
    SELECT 1 FROM json_array_elements($4::json) f WHERE NOT EXISTS (
      SELECT 1 FROM keys k WHERE k.doc = d.doc AND k.name = f ->> 0
        AND CASE f ->> 1
              WHEN '='  THEN k.value = (f -> 2)::jsonb
              WHEN '>=' THEN k.value >= (f -> 2)::jsonb
              WHEN '<'  THEN k.value < (f -> 2)::jsonb
              ELSE k.value #>> '{}' ILIKE f ->> 2 END)))
ORDER BY found.score DESC, d.id;

-- name: excerpts
SELECT d.id, t.title, t.text FROM texts t JOIN documents d ON d.doc = t.doc
WHERE d.collection = $1 AND d.id = ANY ($2::text[]);

-- name: stems
SELECT word, (ts_lexize('stem', word))[1] FROM unnest($1::text[]) AS word;
