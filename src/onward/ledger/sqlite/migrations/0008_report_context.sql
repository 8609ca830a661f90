-- The context of the last reported error that had one, as a JSON object.
ALTER TABLE failure_groups ADD COLUMN context TEXT NOT NULL DEFAULT '{}';
