-- Ledger rows: published, settled, split, deleted.

-- name: waiting_keys
-- A row with the same key that is being claimed is waited for: afterwards it may be too late to merge with it.
SELECT l.key, l.id, l.expires, l.due, l.priority, l.untried
FROM unnest($2::text[]) AS wanted (key) CROSS JOIN LATERAL (
  SELECT key, id, expires, due, priority,
         token = 0 AND tries = 0 AND not_ready = 0 AND given_back = 0 AND serial_key IS NULL AS untried
  FROM ledger
  WHERE state = 'waiting' AND service = $1 AND key = wanted.key OFFSET 0 {lock FOR UPDATE}) AS l;

-- name: free_key
UPDATE ledger SET key = key || '/' || id WHERE id = $1;

-- name: waiting_row :value
SELECT id FROM ledger WHERE state = 'waiting' AND service = $1 AND key = $2 {lock FOR UPDATE};

-- name: remember_foreign_events
-- A dead letter may be older than the ids that are remembered. A message that was never read has its id as key.
INSERT INTO foreign_events (event_id, at)
SELECT given.id, $1::float8 FROM unnest($2::text[]) AS given (id)
WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE event_id = given.id AND state = 'dead'
                    AND NOT (reason = 'malformed' AND key = event_id))
ORDER BY given.id
ON CONFLICT (event_id) DO NOTHING RETURNING event_id;

-- name: forget_foreign_events
DELETE FROM foreign_events WHERE event_id = ANY (ARRAY (
  SELECT event_id FROM foreign_events WHERE at < $1 ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED));

-- name: insert_rows
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, expires, source, generation)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                     $8::float8[], $9::text[], $10::text[], $11::text[], $12::json[], $13::int[], $14::int[],
                     $15::float8[], $16::float8[], $17::text[], $18::int[]);

-- name: insert_rows_with_raw
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, expires, source, generation, raw, properties)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                     $8::float8[], $9::text[], $10::text[], $11::text[], $12::json[], $13::int[], $14::int[],
                     $15::float8[], $16::float8[], $17::text[], $18::int[], $19::bytea[], $20::text[]);

-- name: insert_malformed
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key, due, errors, reason,
                    raw, settled_at, fingerprint, properties)
VALUES ($1, $2, 'dead', $3, $4, 1, '{}', $5, $6, $7, $8, 'malformed', $9, $10, $11, $12);

-- name: unrouted
SELECT id, event_id, event_type, version, data, timestamp, trace, source, generation, priority, due, expires,
       encode(raw, 'hex'), properties
FROM ledger WHERE state = 'unrouted' AND event_type = $1 ORDER BY id {lock FOR UPDATE};

-- name: rows
SELECT id, service, state, key, collection, ids, round, priority, due, tries, not_ready, given_back, openings, able,
       deaths, lapses, started, token, worker, batch, cursor, source, generation, reason, settled_at,
       fingerprint, failed_at, failed_trace, expires, serial_key
FROM ledger WHERE id = ANY ($1::bigint[]) {lock FOR UPDATE};

-- name: row_errors
SELECT id, errors FROM ledger WHERE id = ANY ($1::bigint[]) AND errors IS NOT NULL;

-- name: done_rows
WITH gone AS (
  DELETE FROM ledger WHERE id = ANY ($2::bigint[])
  RETURNING id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id, worker, source,
            collection, ids, data, reason)
INSERT INTO completed (settled_at, id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id,
                       worker, source, collection, ids, data, reason)
SELECT $1::float8, gone.* FROM gone;

-- name: close_rows
-- Settles rows that name no documents, if they still have this token. Not by the index of claimed rows.
WITH gone AS (
  DELETE FROM ledger WHERE id = ANY ($2::bigint[]) AND token = $3 AND state || '' = 'claimed' AND collection IS NULL
  RETURNING id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id, worker, source,
            collection, ids, data, reason, generation, serial_key),
kept AS (
  INSERT INTO completed (settled_at, id, timestamp, due, deaths, tries, not_ready, round, service, event_type,
                         event_id, worker, source, collection, ids, data, reason)
  SELECT $1::float8, id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id, worker,
         source, collection, ids, data, reason FROM gone)
SELECT id, source, generation, service, serial_key FROM gone;

-- name: delete_closed_rows
-- The same without keeping them as completed.
DELETE FROM ledger WHERE id = ANY ($1::bigint[]) AND token = $2 AND state || '' = 'claimed' AND collection IS NULL
RETURNING id, source, generation, service, serial_key;

-- name: update_row
UPDATE ledger SET
  state = :state, ids = :ids, round = :round, due = :due, tries = :tries, not_ready = :not_ready,
  given_back = :given_back, openings = :openings, able = :able,
  deaths = :deaths, lapses = :lapses, started = :started, batch = :batch, cursor = :cursor,
  errors = coalesce(:errors, errors), failed_at = :failed_at, failed_trace = :failed_trace, reason = :reason,
  settled_at = :settled_at, fingerprint = :fingerprint, expires = :expires,
  serial_key = :serial_key::text,
  first_due = CASE WHEN :serial_key::text IS NULL THEN NULL ELSE first_due END
WHERE id = :id;

-- name: split_row
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, tries, not_ready, given_back, openings, able, deaths, batch,
                    cursor, errors, failed_at, failed_trace, source, generation, reason, settled_at, fingerprint,
                    expires, raw, properties)
SELECT :id::bigint, service, :state::text, event_id, event_type, version, data, timestamp, trace, :key::text,
       collection, :ids::text::json, round, priority, :due::float8, :tries::int, :not_ready::int, :given_back::int,
       :openings::int, :able::float8, :deaths::int, :batch::int, :cursor::text, :errors::text, :failed_at::float8,
       :failed_trace::text, source, generation, :reason::text, :settled_at::float8, :fingerprint::text,
       :expires::float8, raw, properties
FROM ledger WHERE id = :origin;

-- name: keep_raw
-- The exact bytes that another program sent, if they are stored, are better than these.
UPDATE ledger SET raw = coalesce(raw, $1) WHERE id = $2;

-- name: delete_rows
DELETE FROM ledger WHERE id = ANY ($1::bigint[]);

-- name: reschedule_row
UPDATE ledger SET due = $1, priority = coalesce($2::int, priority) WHERE id = $3;

-- name: set_deadline
UPDATE ledger SET expires = $1 WHERE id = $2;

-- name: adopt
UPDATE ledger SET ids = $1::json, round = $2, source = $3, generation = $4 WHERE id = $5;

-- name: row_states
SELECT id, state FROM ledger WHERE id = ANY ($1::bigint[]);

-- name: row_counts
SELECT service, state, count(*) FROM ledger GROUP BY service, state
UNION ALL
SELECT service, 'done', count(*) FROM completed GROUP BY service;

-- name: ledger_row :row
SELECT id, service, state, event_type, event_id, timestamp, round, due, tries, not_ready, deaths,
       CASE WHEN state = 'claimed' THEN coalesce((SELECT until FROM leases WHERE leases.worker = ledger.worker), lease) END,
       worker, reason, settled_at, json_array_length(ids), serial_key, first_due
FROM ledger WHERE id = $1;

-- name: settled_rows_naming
-- Settled events have no index by document. Few are kept, so the latest are searched.
SELECT id, service, 'done', event_type, event_id, timestamp, round, due, tries, not_ready, deaths, NULL,
       worker, reason, settled_at, json_array_length(ids)
FROM (SELECT * FROM completed ORDER BY settled_at DESC LIMIT 5000) AS latest
WHERE position(to_json($2::text)::text IN data) > 0
  AND (collection IS NULL
       OR (collection = $1 AND EXISTS (SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $2)))
ORDER BY settled_at DESC, id DESC LIMIT $3;

-- name: rows_of_source :column
SELECT id FROM ledger WHERE source = $1 LIMIT 1000;

-- name: forget_completed
DELETE FROM completed WHERE source = $1;

-- name: completed_before :value
SELECT settled_at FROM completed ORDER BY settled_at DESC OFFSET $1::bigint LIMIT 1;

-- name: prune_completed
DELETE FROM completed WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM completed WHERE settled_at < $1::float8 AND settled_at >= $2::float8
  ORDER BY settled_at LIMIT $3::bigint FOR UPDATE SKIP LOCKED));

-- name: unrouted_before :value
SELECT due FROM ledger WHERE state = 'unrouted' ORDER BY due DESC LIMIT 1 OFFSET $1::bigint;

-- name: prune_unrouted
DELETE FROM ledger WHERE id = ANY (ARRAY (
  SELECT id FROM ledger WHERE state = 'unrouted' AND due < $1::float8
  ORDER BY due LIMIT 5000 FOR UPDATE SKIP LOCKED));
