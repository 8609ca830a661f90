-- Lists documents by the time of their last change, for each collection and status.
CREATE INDEX documents_changed ON documents (collection, status, coalesce(updated_at, 0), doc);

-- Archives are found by the beginning of their path, or of a part of it; older ones by that of their name, too.
INSERT OR IGNORE INTO keys
SELECT doc, 'title', lower(place) FROM (
  SELECT d.doc, coalesce(nullif(json_extract(b.body, '$.path'), ''), json_extract(b.body, '$.source')) AS place
  FROM documents d JOIN bodies b ON b.doc = d.doc WHERE d.collection = 'archives' AND json_valid(b.body))
WHERE place IS NOT NULL;
INSERT OR IGNORE INTO keys
SELECT k.doc, 'title', replace(k.value, rtrim(k.value, replace(k.value, '/', '')), '')
FROM keys k WHERE k.name = 'title' AND k.value LIKE '%/_%' AND k.value NOT LIKE '%/';
