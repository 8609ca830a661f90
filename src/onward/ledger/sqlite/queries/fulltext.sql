-- Full text, ranked by BM25.

-- name: insert_texts
INSERT OR REPLACE INTO texts (rowid, title, text, quoted) VALUES {values};

-- name: delete_texts
DELETE FROM texts WHERE rowid IN (SELECT value FROM json_each(?));

-- name: term_counts
-- The number of texts, and the number of texts that contain each term.
SELECT json_array((SELECT count(*) FROM texts_docsize),
                  (SELECT json_group_array((SELECT count(*) FROM texts WHERE texts MATCH value)) FROM json_each(?1)));

-- name: found_texts
-- The texts that match: their number, the newest, and those of ?6. They are not ranked, because ranking is slow.
-- Three small searches are quicker than one that keeps all matches.
WITH found AS NOT MATERIALIZED (
  SELECT texts.rowid AS doc, d.id
  FROM texts CROSS JOIN documents d ON d.doc = texts.rowid -- in this order: the other way asks anew for each document
  WHERE texts MATCH ?1 AND d.collection = ?2 AND (?3 IS NULL OR d.source = ?3)
    AND (json_array_length(?4) = 0 OR d.doc IN (
      SELECT k.doc FROM json_each(?4) f CROSS JOIN keys k ON k.name = json_extract(f.value, '$[0]')
        AND CASE json_extract(f.value, '$[1]')
              WHEN '='  THEN k.value = json_extract(f.value, '$[2]')
              WHEN '>=' THEN k.value >= json_extract(f.value, '$[2]')
              WHEN '<'  THEN k.value < json_extract(f.value, '$[2]')
              ELSE k.value LIKE json_extract(f.value, '$[2]') ESCAPE '\' END
      GROUP BY k.doc HAVING count(DISTINCT f.key) = json_array_length(?4))))
SELECT json_array(
  (SELECT count(*) FROM found),
  (SELECT json_group_array(json_array(doc, id)) FROM (SELECT doc, id FROM found ORDER BY doc DESC LIMIT ?5)),
  (SELECT json_group_array(id) FROM found
   WHERE +doc IN (SELECT doc FROM documents WHERE collection = ?2 AND id IN (SELECT value FROM json_each(?6)))));

-- name: ranked_texts
-- The texts that match, from text ?5 on: the best, those of ?7, and their number. Words in titles count twice,
-- quoted ones 0.3 times: measured on a mailing list, where with 1 a mail falls behind the replies that quote it.
WITH ranked AS MATERIALIZED (
  SELECT d.doc, d.id, bm25(texts, 2.0, 1.0, 0.3) AS score
  FROM texts CROSS JOIN documents d ON d.doc = texts.rowid
  WHERE texts MATCH ?1 AND texts.rowid >= ?5 AND d.collection = ?2 AND (?3 IS NULL OR d.source = ?3)
    AND (json_array_length(?4) = 0 OR d.doc IN (
      SELECT k.doc FROM json_each(?4) f CROSS JOIN keys k ON k.name = json_extract(f.value, '$[0]')
        AND CASE json_extract(f.value, '$[1]')
              WHEN '='  THEN k.value = json_extract(f.value, '$[2]')
              WHEN '>=' THEN k.value >= json_extract(f.value, '$[2]')
              WHEN '<'  THEN k.value < json_extract(f.value, '$[2]')
              ELSE k.value LIKE json_extract(f.value, '$[2]') ESCAPE '\' END
      GROUP BY k.doc HAVING count(DISTINCT f.key) = json_array_length(?4))))
SELECT json_array(
  (SELECT json_group_array(json_array(id, -score))
   FROM (SELECT id, score FROM ranked ORDER BY score, doc DESC LIMIT ?6)),
  (SELECT json_group_array(json_array(id, -score))
   FROM (SELECT id, score FROM ranked WHERE id IN (SELECT value FROM json_each(?7)) ORDER BY score, doc DESC)),
  (SELECT count(*) FROM ranked));

-- name: excerpts
-- An excerpt of the quoted text only if nothing else matches.
SELECT id, title, CASE WHEN instr(text, char(2)) = 0 AND instr(quoted, char(2)) > 0 THEN quoted ELSE text END
FROM (SELECT d.id, highlight(texts, 0, char(2), char(3)) AS title,
             snippet(texts, 1, char(2), char(3), '…', 40) AS text,
             snippet(texts, 2, char(2), char(3), '…', 40) AS quoted
      FROM texts JOIN documents d ON d.doc = texts.rowid
      WHERE texts MATCH ?1 AND texts.rowid IN (
        SELECT doc FROM documents WHERE collection = ?2 AND id IN (SELECT value FROM json_each(?3))));
