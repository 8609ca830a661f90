-- What transactions of other connections have published, and nobody has moved to the ledger yet.

-- name: has_incoming :value
SELECT EXISTS (SELECT 1 FROM incoming);

-- name: take_incoming
-- The oldest rows, up to `$1` rows and about `$2` bytes, without those that another process is moving.
DELETE FROM incoming WHERE id = ANY (ARRAY (
  SELECT id FROM (
    SELECT id, sum(octet_length(body)) OVER (ORDER BY id) - octet_length(body) AS before
    FROM (SELECT id, body FROM incoming ORDER BY id LIMIT $1::integer FOR UPDATE SKIP LOCKED) AS locked) AS sized
  WHERE before < $2::bigint))
RETURNING id, at, format, priority, delay, expires, convert_to(body, 'UTF8');

-- name: take_incoming_row
DELETE FROM incoming WHERE id = $1::bigint RETURNING id, at, format, priority, delay, expires, convert_to(body, 'UTF8');

-- name: incoming_counts :row
SELECT count(*), min(at) FROM incoming;
