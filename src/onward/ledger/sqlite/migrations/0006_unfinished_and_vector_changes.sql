-- Finds unfinished documents in the order of their ids, however many documents are finished.
CREATE INDEX documents_unfinished ON documents (collection, id)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded');

-- The last change of each document's vector: a process that has read a vector space then reads only the changes.
-- There is one writer at a time, so no lower number is added after a higher one was read.
CREATE TABLE vector_changes (
  doc    INTEGER PRIMARY KEY,
  change INTEGER NOT NULL
);
CREATE INDEX vectors_change ON vector_changes (change);
CREATE TRIGGER vectors_inserted AFTER INSERT ON vectors BEGIN
  INSERT OR REPLACE INTO vector_changes (doc, change)
  VALUES (NEW.doc, (SELECT coalesce(max(change), 0) + 1 FROM vector_changes));
END;
CREATE TRIGGER vectors_deleted AFTER DELETE ON vectors BEGIN
  INSERT OR REPLACE INTO vector_changes (doc, change)
  VALUES (OLD.doc, (SELECT coalesce(max(change), 0) + 1 FROM vector_changes));
END;
