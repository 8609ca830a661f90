-- Lists the documents of a source by the time of their last change; without this, all of them were sorted.
CREATE INDEX documents_of_source ON documents (source, collection, status, coalesce(updated_at, 0), doc)
  WHERE source IS NOT NULL;
DROP INDEX documents_source;
