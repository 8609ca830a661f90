-- The context of the last reported error that had one.
ALTER TABLE failure_groups ADD COLUMN context json NOT NULL DEFAULT '{}';
