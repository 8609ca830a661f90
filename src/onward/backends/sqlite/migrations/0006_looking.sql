-- What is still to be finished is found in the order of ids, however many documents are done.
CREATE INDEX documents_unfinished ON documents (collection, id)
  WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded');

-- When each document was last placed in a vector space, or taken out of it: who has read a space need not read all
-- of it again. There is one writer at a time, so a number that was seen has none below it that is still to come.
CREATE TABLE placings (
  doc    INTEGER PRIMARY KEY,
  change INTEGER NOT NULL
);
CREATE INDEX placings_change ON placings (change);
CREATE TRIGGER vectors_placed AFTER INSERT ON vectors BEGIN
  INSERT OR REPLACE INTO placings (doc, change)
  VALUES (NEW.doc, (SELECT coalesce(max(change), 0) + 1 FROM placings));
END;
CREATE TRIGGER vectors_removed AFTER DELETE ON vectors BEGIN
  INSERT OR REPLACE INTO placings (doc, change)
  VALUES (OLD.doc, (SELECT coalesce(max(change), 0) + 1 FROM placings));
END;
