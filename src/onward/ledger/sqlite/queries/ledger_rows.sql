-- Ledger rows: published, settled, split, deleted.

-- name: waiting_keys
SELECT json_group_array(json_array(
  key, id, expires, due, priority,
  token = 0 AND tries = 0 AND not_ready = 0 AND given_back = 0 AND serial_key IS NULL))
FROM ledger WHERE state = 'waiting' AND service = ? AND key IN (SELECT value FROM json_each(?));

-- name: free_key
UPDATE ledger SET key = key || '/' || id WHERE id = ?;

-- name: waiting_row
SELECT id FROM ledger WHERE state = 'waiting' AND service = ? AND key = ?;

-- name: remember_foreign_events
-- A dead letter may be older than the ids that are remembered. A message that was never read has its id as key.
INSERT INTO foreign_events (event_id, at)
SELECT given.value, ?1 FROM json_each(?2) AS given
WHERE NOT EXISTS (SELECT 1 FROM ledger WHERE event_id = given.value AND state = 'dead'
                    AND NOT (reason = 'malformed' AND key = event_id))
ON CONFLICT (event_id) DO NOTHING RETURNING event_id;

-- name: forget_foreign_events
DELETE FROM foreign_events WHERE event_id IN (SELECT event_id FROM foreign_events WHERE at < ? ORDER BY at LIMIT ?);

-- name: insert_rows
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, expires, source, generation)
VALUES {values};

-- name: insert_rows_with_raw
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, expires, source, generation, raw, properties)
VALUES {values};

-- name: insert_malformed
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key, due, errors, reason,
                    raw, settled_at, fingerprint, properties)
VALUES (?, ?, 'dead', ?, ?, 1, '{}', ?, ?, ?, ?, 'malformed', ?, ?, ?, ?);

-- name: unrouted
SELECT json_group_array(json_array(id, event_id, event_type, version, data, timestamp, trace, source,
                                   generation, priority, due, expires, iif(raw IS NULL, NULL, hex(raw)),
                                   properties))
FROM ledger WHERE state = 'unrouted' AND event_type = ?;

-- name: rows
SELECT json_group_array(json_array(id, service, state, key, collection, json(ids), round, priority, due, tries,
                                   not_ready, given_back, openings, able, deaths, lapses, started, token,
                                   worker, batch, cursor, source, generation, reason, settled_at, fingerprint,
                                   failed_at, failed_trace, expires, serial_key))
FROM ledger WHERE id IN (SELECT value FROM json_each(?));

-- name: row_errors
SELECT json_group_array(json_array(id, errors))
FROM ledger WHERE id IN (SELECT value FROM json_each(?)) AND errors IS NOT NULL;

-- name: done_rows
UPDATE ledger SET state = 'done', settled_at = ? WHERE id IN (SELECT value FROM json_each(?));

-- name: close_rows
-- Settles rows that name no documents, if they still have this token.
UPDATE ledger SET state = 'done', settled_at = ?1
WHERE id IN (SELECT value FROM json_each(?2)) AND token = ?3 AND state = 'claimed' AND collection IS NULL
RETURNING id, source, generation, service, serial_key;

-- name: delete_closed_rows
-- The same without keeping them as completed.
DELETE FROM ledger
WHERE id IN (SELECT value FROM json_each(?)) AND token = ? AND state = 'claimed' AND collection IS NULL
RETURNING id, source, generation, service, serial_key;

-- name: update_row
UPDATE ledger SET
  state = :state, ids = :ids, round = :round, due = :due, tries = :tries, not_ready = :not_ready,
  given_back = :given_back, openings = :openings, able = :able,
  deaths = :deaths, lapses = :lapses, started = :started, batch = :batch, cursor = :cursor,
  errors = coalesce(:errors, errors), failed_at = :failed_at, failed_trace = :failed_trace, reason = :reason,
  settled_at = :settled_at, fingerprint = :fingerprint, expires = :expires,
  serial_key = :serial_key,
  first_due = CASE WHEN :serial_key IS NULL THEN NULL ELSE first_due END
WHERE id = :id;

-- name: split_row
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, tries, not_ready, given_back, openings, able, deaths, batch,
                    cursor, errors, failed_at, failed_trace, source, generation, reason, settled_at, fingerprint,
                    expires, raw, properties)
SELECT :id, service, :state, event_id, event_type, version, data, timestamp, trace, :key, collection,
       :ids, round, priority, :due, :tries, :not_ready, :given_back, :openings, :able, :deaths, :batch, :cursor,
       :errors, :failed_at, :failed_trace, source, generation, :reason, :settled_at, :fingerprint,
       :expires, raw, properties
FROM ledger WHERE id = :origin;

-- name: keep_raw
-- The exact bytes that another program sent, if they are stored, are better than these.
UPDATE ledger SET raw = coalesce(raw, ?) WHERE id = ?;

-- name: delete_rows
DELETE FROM ledger WHERE id IN (SELECT value FROM json_each(?));

-- name: reschedule_row
UPDATE ledger SET due = ?, priority = coalesce(?, priority) WHERE id = ?;

-- name: set_deadline
UPDATE ledger SET expires = ? WHERE id = ?;

-- name: adopt
UPDATE ledger SET ids = ?, round = ?, source = ?, generation = ? WHERE id = ?;

-- name: row_states
SELECT json_group_array(json_array(id, state)) FROM ledger WHERE id IN (SELECT value FROM json_each(?));

-- name: row_counts
-- Each state is counted by its own partial index: rows are wide, and a backlog may have many of them.
SELECT json_group_array(json_array(service, state, n)) FROM (
  SELECT service, 'waiting' AS state, sum(n) AS n FROM (
    SELECT service, count(*) AS n FROM ledger INDEXED BY ledger_due
    WHERE state = 'waiting' AND deaths < 2 GROUP BY service
    UNION ALL
    SELECT service, count(*) FROM ledger INDEXED BY ledger_suspect
    WHERE state = 'waiting' AND deaths >= 2 GROUP BY service) GROUP BY service
  UNION ALL
  SELECT service, state, count(*) FROM ledger INDEXED BY ledger_claimed WHERE state = 'claimed' GROUP BY service
  UNION ALL
  SELECT service, state, count(*) FROM ledger INDEXED BY ledger_done WHERE state = 'done' GROUP BY service
  UNION ALL
  SELECT service, state, count(*) FROM ledger INDEXED BY ledger_dead_service WHERE state = 'dead' GROUP BY service
  UNION ALL
  SELECT service, state, count(*) FROM ledger INDEXED BY ledger_unrouted WHERE state = 'unrouted' GROUP BY service
  UNION ALL
  SELECT service, state, count(*) FROM ledger INDEXED BY ledger_archived WHERE state = 'archived' GROUP BY service);

-- name: ledger_row
SELECT json_array(id, service, state, event_type, event_id, timestamp, round, due, tries, not_ready, deaths,
                  iif(state = 'claimed', coalesce((SELECT until FROM leases WHERE leases.worker = ledger.worker), lease), NULL),
                  worker, reason, settled_at, json_array_length(ids), serial_key, first_due)
FROM ledger WHERE id = ?;

-- name: settled_rows_naming
-- Settled events have no index by document. Few are kept, so the latest are searched.
SELECT json_group_array(json(told)) FROM (
  SELECT json_array(id, service, state, event_type, event_id, timestamp, round, due, tries, not_ready, deaths,
                    NULL, worker, reason, settled_at, json_array_length(ids)) AS told
  FROM (SELECT * FROM ledger WHERE state = 'done' ORDER BY settled_at DESC LIMIT 5000)
  WHERE instr(data, json_quote(?2)) > 0
    AND (collection IS NULL
         OR (collection = ?1 AND EXISTS (SELECT 1 FROM json_each(ids) WHERE json_extract(value, '$[0]') = ?2)))
  ORDER BY settled_at DESC, id DESC LIMIT ?3);

-- name: rows_of_source
SELECT json_group_array(id) FROM (SELECT id FROM ledger WHERE source = ? LIMIT 1000);

-- name: forget_completed
DELETE FROM ledger WHERE source = ? AND state = 'done';

-- name: completed_before
SELECT settled_at FROM ledger WHERE state = 'done' ORDER BY settled_at DESC LIMIT 1 OFFSET ?;

-- name: prune_completed
DELETE FROM ledger WHERE id IN (
  SELECT id FROM ledger WHERE state = 'done' AND settled_at < ? AND settled_at >= ? ORDER BY settled_at LIMIT ?);

-- name: unrouted_before
SELECT due FROM ledger WHERE state = 'unrouted' ORDER BY due DESC LIMIT 1 OFFSET ?;

-- name: prune_unrouted
DELETE FROM ledger WHERE id IN
  (SELECT id FROM ledger WHERE state = 'unrouted' AND due < ? ORDER BY due LIMIT 5000);
