-- Rows of services that run one at a time for each key. A row that waits for its key is due at 253370764800.

-- name: due_rows_in_order
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace, expires, due))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ?
        AND due >= ? AND due <= ?
      ORDER BY due, id LIMIT ?);

-- name: row_keys
-- Not as JSON, which rounds times.
SELECT id, serial_key, coalesce(first_due, due) FROM ledger WHERE id IN (SELECT value FROM json_each(?));

-- name: take_keys
-- Returns who has each key afterwards: the given row, or the one that had it before.
INSERT INTO key_holders (service, serial_key, holder)
SELECT ?1, k.value, h.value FROM json_each(?2) AS k JOIN json_each(?3) AS h ON h.key = k.key
WHERE true
ON CONFLICT (service, serial_key) DO UPDATE SET holder = key_holders.holder
RETURNING serial_key, holder;

-- name: live_holders
SELECT id, serial_key FROM ledger
WHERE id IN (SELECT value FROM json_each(?)) AND state IN ('waiting', 'claimed') AND due < 253370764800;

-- name: first_of_keys
-- The first waiting row of each key.
SELECT serial_key, id, first_due, due FROM ledger
WHERE id IN (SELECT (SELECT id FROM ledger
                     WHERE service = ?1 AND serial_key = k.value AND state = 'waiting'
                     ORDER BY first_due, id LIMIT 1)
             FROM json_each(?2) AS k);

-- name: first_parked
-- The first row that waits for each key. Not behind those of the key that wait for a retry: there may be many.
SELECT serial_key, id FROM ledger
WHERE id IN (SELECT (SELECT id FROM ledger INDEXED BY ledger_parked
                     WHERE service = ?1 AND serial_key = k.value AND state = 'waiting' AND due >= 253370764800
                     ORDER BY first_due, id LIMIT 1)
             FROM json_each(?2) AS k);

-- name: claim_keyed_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = v.column3, lease = NULL, started = 0,
  serial_key = v.column2, first_due = iif(v.column2 IS NULL, NULL, coalesce(first_due, due))
FROM (VALUES {values}) AS v WHERE ledger.id = v.column1;

-- name: park_rows
UPDATE ledger SET serial_key = v.column2, first_due = coalesce(first_due, due), due = 253370764800
FROM (VALUES {values}) AS v WHERE ledger.id = v.column1;

-- name: change_keys
UPDATE ledger SET serial_key = v.column2 FROM (VALUES {values}) AS v WHERE ledger.id = v.column1;

-- name: lock_keys
SELECT serial_key, holder FROM key_holders
WHERE service = ? AND serial_key IN (SELECT value FROM json_each(?)) ORDER BY serial_key;

-- name: make_due
-- At its place in the queue: behind a long backlog it would hold up the others of its key.
UPDATE ledger SET due = min(coalesce(first_due, ?1), ?1) WHERE id IN (SELECT value FROM json_each(?2));

-- name: give_keys
UPDATE key_holders SET holder = v.column3
FROM (VALUES {values}) AS v WHERE key_holders.service = v.column1 AND key_holders.serial_key = v.column2;

-- name: drop_keys
DELETE FROM key_holders WHERE service = ? AND serial_key IN (SELECT value FROM json_each(?));

-- name: lost_keys
-- Keys whose holder is settled or gone, which nobody has released: an older version has settled it.
SELECT service, serial_key, holder FROM key_holders AS k
WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE id = k.holder AND state IN ('waiting', 'claimed')
                    AND serial_key = k.serial_key AND due < 253370764800)
ORDER BY service, serial_key LIMIT ?;

-- name: rename_keys
INSERT INTO key_holders (service, serial_key, holder)
SELECT ?1, serial_key, holder FROM key_holders WHERE service = ?2
ON CONFLICT (service, serial_key) DO NOTHING;

-- name: drop_keys_of_service
DELETE FROM key_holders WHERE service = ?;
