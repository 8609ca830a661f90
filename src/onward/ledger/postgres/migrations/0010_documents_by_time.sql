-- Lists documents by the time of their last change, for each collection and status.
CREATE INDEX documents_changed ON documents (collection, status, coalesce(updated_at, 0), doc);

-- Archives are found by the beginning of their path, or of a part of it; older ones by that of their name, too. Values
-- as JSON sort by the collation of the database, in which a beginning is no range.
CREATE INDEX keys_title ON keys ((value #>> '{}') COLLATE "C", doc) WHERE name = 'title';
INSERT INTO keys
SELECT doc, 'title', to_jsonb(title) FROM (
  SELECT d.doc, lower(coalesce(nullif(b.body::json ->> 'path', ''), b.body::json ->> 'source')) AS title
  FROM documents d JOIN bodies b ON b.doc = d.doc WHERE d.collection = 'archives') places
WHERE title IS NOT NULL
UNION
SELECT doc, 'title', to_jsonb(regexp_replace(title, '^.*/', '')) FROM (
  SELECT d.doc, lower(coalesce(nullif(b.body::json ->> 'path', ''), b.body::json ->> 'source')) AS title
  FROM documents d JOIN bodies b ON b.doc = d.doc WHERE d.collection = 'archives') places
WHERE title LIKE '%/_%' AND title NOT LIKE '%/'
ON CONFLICT DO NOTHING;
