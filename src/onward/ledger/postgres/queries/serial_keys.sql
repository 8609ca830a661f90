-- Rows of services that run one at a time for each key. A row that waits for its key is due at 253370764800.

-- name: due_rows_in_order
-- Unlike `due_rows`, it waits for locked rows: a newer row must not be claimed before an older one.
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, failed_at, failed_trace, expires, due
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
  AND due >= $3::float8 AND due <= $4::float8
ORDER BY due, id LIMIT $5 {lock FOR UPDATE};

-- name: row_keys
SELECT id, serial_key, coalesce(first_due, due) FROM ledger WHERE id = ANY ($1::bigint[]);

-- name: take_keys
-- Returns who has each key afterwards: the given row, or the one that had it before. The keys are locked either way:
-- a settlement that releases one waits, and finds the rows that this transaction makes wait for it.
INSERT INTO key_holders (service, serial_key, holder)
SELECT $1::text, k.serial_key, h.holder
FROM unnest($2::text[]) WITH ORDINALITY AS k (serial_key, n)
JOIN unnest($3::bigint[]) WITH ORDINALITY AS h (holder, n) ON h.n = k.n
ORDER BY k.n
ON CONFLICT (service, serial_key) DO UPDATE SET holder = key_holders.holder
RETURNING serial_key, holder;

-- name: live_holders
SELECT id, serial_key FROM ledger
WHERE id = ANY ($1::bigint[]) AND state IN ('waiting', 'claimed') AND due < 253370764800;

-- name: first_of_keys
-- The first waiting row of each key.
SELECT l.serial_key, l.id, l.first_due, l.due
FROM unnest($2::text[]) AS k (serial_key) CROSS JOIN LATERAL (
  SELECT serial_key, id, first_due, due FROM ledger
  WHERE service = $1 AND serial_key = k.serial_key AND state = 'waiting'
  ORDER BY service, serial_key, first_due, id LIMIT 1 {lock FOR UPDATE}) AS l;

-- name: first_parked
-- The first row that waits for each key. Not behind those of the key that wait for a retry: there may be many.
SELECT l.serial_key, l.id
FROM unnest($2::text[]) AS k (serial_key) CROSS JOIN LATERAL (
  SELECT serial_key, id FROM ledger
  WHERE service = $1 AND serial_key = k.serial_key AND state = 'waiting' AND due >= 253370764800
  ORDER BY service, serial_key, first_due, id LIMIT 1 {lock FOR UPDATE}) AS l;

-- name: claim_keyed_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = v.worker, lease = NULL, started = 0,
  serial_key = v.serial_key,
  first_due = CASE WHEN v.serial_key IS NULL THEN NULL ELSE coalesce(first_due, due) END
FROM unnest($1::bigint[], $2::text[], $3::text[]) AS v (id, serial_key, worker) WHERE ledger.id = v.id;

-- name: park_rows
UPDATE ledger SET serial_key = v.serial_key, first_due = coalesce(first_due, due), due = 253370764800
FROM unnest($1::bigint[], $2::text[]) AS v (id, serial_key) WHERE ledger.id = v.id;

-- name: change_keys
UPDATE ledger SET serial_key = v.serial_key
FROM unnest($1::bigint[], $2::text[]) AS v (id, serial_key) WHERE ledger.id = v.id;

-- name: lock_keys
SELECT serial_key, holder FROM key_holders
WHERE service = $1 AND serial_key = ANY ($2::text[]) ORDER BY serial_key {lock FOR UPDATE};

-- name: make_due
-- At its place in the queue: behind a long backlog it would hold up the others of its key.
UPDATE ledger SET due = least(coalesce(first_due, $1::float8), $1::float8) WHERE id = ANY ($2::bigint[]);

-- name: give_keys
UPDATE key_holders SET holder = v.holder
FROM unnest($1::text[], $2::text[], $3::bigint[]) AS v (service, serial_key, holder)
WHERE key_holders.service = v.service AND key_holders.serial_key = v.serial_key;

-- name: drop_keys
DELETE FROM key_holders WHERE service = $1 AND serial_key = ANY ($2::text[]);

-- name: lost_keys
-- Keys whose holder is settled or gone, which nobody has released: an older version has settled it.
SELECT service, serial_key, holder FROM key_holders AS k
WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE id = k.holder AND state IN ('waiting', 'claimed')
                    AND serial_key = k.serial_key AND due < 253370764800)
ORDER BY service, serial_key LIMIT $1::bigint;

-- name: rename_keys
INSERT INTO key_holders (service, serial_key, holder)
SELECT $1::text, serial_key, holder FROM key_holders WHERE service = $2
ON CONFLICT (service, serial_key) DO NOTHING;

-- name: drop_keys_of_service
DELETE FROM key_holders WHERE service = $1;
