-- What transactions of other connections have published, and nobody has moved to the ledger yet.

-- name: has_incoming
SELECT EXISTS (SELECT 1 FROM incoming);

-- name: take_incoming
-- The oldest rows, up to `?1` rows and about `?2` bytes. As a blob: text that is not UTF-8 could not be read.
DELETE FROM incoming WHERE id IN (
  SELECT id FROM (
    SELECT id, sum(length(CAST(body AS BLOB))) OVER (ORDER BY id) - length(CAST(body AS BLOB)) AS before
    FROM (SELECT id, body FROM incoming ORDER BY id LIMIT ?1))
  WHERE before < ?2)
RETURNING id, at, format, priority, delay, expires, CAST(body AS BLOB);

-- name: take_incoming_row
DELETE FROM incoming WHERE id = ? RETURNING id, at, format, priority, delay, expires, CAST(body AS BLOB);

-- name: incoming_counts
SELECT json_array(count(*), min(at)) FROM incoming;
