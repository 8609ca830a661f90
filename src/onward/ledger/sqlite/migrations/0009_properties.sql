-- The properties of another program's message, as JSON: content type, headers, routing key and the like.
ALTER TABLE ledger ADD COLUMN properties TEXT;
