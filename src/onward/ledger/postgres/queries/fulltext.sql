-- Full text, ranked by BM25.

-- name: insert_texts
INSERT INTO texts (doc, size, collection, source, title, text, quoted, stems)
SELECT doc, new.size, d.collection, d.source, title, text, quoted,
       -- A lexeme that is no word separates the parts, so that no phrase matches across title, text and quoted text.
       ts_delete(setweight(to_tsvector('words', title_words), 'A') || ''' '':1'::tsvector
                 || to_tsvector('words', text_words) || ''' '':1'::tsvector
                 || setweight(to_tsvector('words', quoted_words), 'C'), ' ')
FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::integer[], $6::text[], $7::text[], $8::text[])
     AS new (doc, title, text, quoted, size, title_words, text_words, quoted_words)
JOIN documents d USING (doc)
ON CONFLICT (doc) DO UPDATE
SET title = excluded.title, text = excluded.text, quoted = excluded.quoted, size = excluded.size,
    stems = excluded.stems;

-- name: delete_texts
DELETE FROM texts WHERE doc = ANY ($1::bigint[]);

-- name: match_texts
-- $1: the result of `text_query` in postgres/fulltext.py. A term in more than half of the texts does not distinguish
-- them: it matches texts, but ranks them only if there is no rarer term. At most the 32 rarest terms rank.
-- ts_rank_cd counts occurrences, those in titles twice, quoted ones 0.3 times. k1 = 1.2, b = 0.75, as in SQLite.
WITH totals AS MATERIALIZED (SELECT count(*)::float8 AS texts, avg(size)::float8 AS size FROM texts),
-- For frequent words the server's statistics are used: counting them would take longer than the rest of the query.
common AS MATERIALIZED (
  SELECT stem, often FROM pg_stats, unnest(most_common_elems::text::text[], most_common_elem_freqs) AS one (stem, often)
  WHERE schemaname = current_schema() AND tablename = 'texts' AND attname = 'stems' AND often > 0.1),
asked AS MATERIALIZED (
  SELECT term, term || ($1::jsonb ->> 'where') AS there,
         coalesce((SELECT often * totals.texts FROM common
                   WHERE totals.texts > $7 AND stem = (ts_lexize('stem', trim(term, '''')))[1]),
                  (SELECT count(*) FROM texts WHERE stems @@ to_tsquery('words', term))) AS texts
  FROM totals, jsonb_array_elements_text($1::jsonb -> 'terms') AS term),
ranking AS MATERIALIZED (
  SELECT to_tsquery('words', there) AS term, to_tsquery('words', there || ($1::jsonb ->> 'without')) AS query,
         greatest(ln((total - texts + 0.5) / (texts + 0.5)), 1e-6) AS weight, some_are_rare
  FROM (SELECT asked.*, totals.texts AS total, bool_or(asked.texts * 2 <= totals.texts) OVER () AS some_are_rare
        FROM asked, totals WHERE asked.texts > 0) counted
  WHERE texts * 2 <= total OR NOT some_are_rare
  ORDER BY texts LIMIT 32),
filters AS MATERIALIZED (
  SELECT number, filter ->> 0 AS name, filter ->> 1 AS relation, filter -> 2 AS value, filter ->> 2 AS pattern
  FROM jsonb_array_elements($4::jsonb) WITH ORDINALITY AS one (filter, number)),
allowed AS MATERIALIZED (
  SELECT k.doc
  FROM filters f JOIN keys k ON k.name = f.name
   AND CASE relation
         WHEN '='  THEN k.value = f.value
         WHEN '>=' THEN k.value >= f.value
         WHEN '<'  THEN k.value < f.value
         ELSE k.value #>> '{}' ILIKE pattern END
  GROUP BY k.doc HAVING count(DISTINCT number) = (SELECT count(*) FROM filters)),
found AS MATERIALIZED (
  SELECT doc FROM texts
  WHERE stems @@ to_tsquery('words', $1::jsonb ->> 'query')
    AND collection = $2 AND ($3::text IS NULL OR source = $3)
    AND ($4::jsonb = '[]' OR doc IN (SELECT doc FROM allowed))),
newest AS MATERIALIZED (
  SELECT doc FROM found WHERE NOT (SELECT bool_or(some_are_rare) FROM ranking) ORDER BY doc DESC LIMIT $8),
counted AS (
  SELECT t.doc, t.size, weight, 2 * ts_rank_cd('{0.5, 0.15, 0.5, 1}', t.stems, term)::float8 AS tf
  FROM ranking, texts t
  WHERE some_are_rare AND t.stems @@ query
    AND collection = $2 AND ($3::text IS NULL OR source = $3)
    AND ($4::jsonb = '[]' OR t.doc IN (SELECT doc FROM allowed))
  UNION ALL
  SELECT t.doc, t.size, weight, 2 * ts_rank_cd('{0.5, 0.15, 0.5, 1}', t.stems, term)::float8
  FROM newest JOIN texts t USING (doc), ranking
  WHERE t.stems @@ query),
scored AS MATERIALIZED (
  SELECT doc, sum(weight * tf * 2.2 / (tf + 1.2 * (0.25 + 0.75 * counted.size / totals.size))) AS score
  FROM counted, totals GROUP BY doc),
besides AS MATERIALIZED (SELECT doc FROM documents WHERE collection = $2 AND id = ANY ($6::text[])),
-- NOT IN instead of NOT EXISTS: without an estimate of the rows, the planner would compare each pair.
best AS (
  (SELECT doc, score FROM scored ORDER BY score DESC, doc DESC LIMIT $5)
  UNION
  (SELECT doc, $9::float8 FROM found WHERE doc NOT IN (SELECT doc FROM scored)
   ORDER BY doc DESC LIMIT CASE WHEN $5 IS NOT NULL THEN greatest($5 - (SELECT count(*) FROM scored), 0) END)
  UNION
  SELECT doc, score FROM scored WHERE doc IN (SELECT doc FROM besides)
  UNION
  SELECT doc, $9 FROM found WHERE doc IN (SELECT doc FROM besides) AND doc NOT IN (SELECT doc FROM scored))
SELECT d.id, best.score, (SELECT count(*) FROM found)
FROM best JOIN documents d USING (doc)
ORDER BY best.score DESC, doc DESC;

-- name: excerpts
SELECT d.id, t.title, t.text, t.quoted FROM texts t JOIN documents d ON d.doc = t.doc
WHERE d.collection = $1 AND d.id = ANY ($2::text[]);

-- name: stems
SELECT word, (ts_lexize('stem', word))[1] FROM unnest($1::text[]) AS word;
