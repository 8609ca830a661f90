-- Due rows, claims and leases.

-- name: next_priority
SELECT max(priority) FROM ledger
WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority < ?;

-- name: due_rows
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ? AND due <= ?
      ORDER BY due, id LIMIT ?);

-- name: due_sample
-- The oldest and the newest due rows, with the number of failures of each, as a sample of a mixed queue.
SELECT json_group_array(json_array(id, failed, due))
FROM (SELECT * FROM (SELECT id, max(round - 1, 0) + tries + given_back AS failed, due FROM ledger
                     WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND priority = ?2 AND due <= ?3
                     ORDER BY due, id LIMIT ?4)
      UNION
      SELECT * FROM (SELECT id, max(round - 1, 0) + tries + given_back AS failed, due FROM ledger
                     WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND priority = ?2 AND due <= ?3
                     ORDER BY due DESC, id DESC LIMIT ?4));

-- name: due_suspects
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths >= 2 AND due <= ?
      ORDER BY due, id LIMIT ?);

-- name: due_among
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace))
FROM (SELECT * FROM ledger NOT INDEXED
      WHERE id IN (SELECT value FROM json_each(?1)) AND service = ?2 AND state = 'waiting' AND deaths < 2
        AND due <= ?3
      ORDER BY priority DESC, due, id);

-- name: claimed_rows
SELECT json_group_array(json_array(id, token - 1, event_id, event_type, version, data, timestamp, key,
                                   collection, json(ids), round, priority, tries, not_ready, able, deaths, lapses,
                                   batch, cursor, source, trace, failed_at, failed_trace, service))
FROM ledger WHERE state = 'claimed' AND worker = ?;

-- name: claim_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = ?, lease = ?, started = 0
WHERE id IN (SELECT value FROM json_each(?));

-- name: renew
UPDATE ledger SET lease = ? WHERE state = 'claimed' AND worker = ?;

-- name: claims_of
SELECT json_group_array(id) FROM ledger WHERE state = 'claimed' AND worker = ?;

-- name: lapsed
SELECT json_group_array(id) FROM ledger WHERE state = 'claimed' AND lease <= ?;

-- name: next_lapse
SELECT min(lease) FROM ledger WHERE state = 'claimed';

-- name: next_due
SELECT min(due) FROM ledger WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ?;

-- name: next_suspect
SELECT min(due) FROM ledger WHERE service = ? AND state = 'waiting' AND deaths >= 2;

-- name: claimed_count
SELECT count(*) FROM ledger WHERE state = 'claimed' AND service IN (SELECT value FROM json_each(?));

-- name: is_busy
SELECT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND service IN (SELECT value FROM json_each(?1)))
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths < 2 AND service IN (SELECT value FROM json_each(?2)) AND due <= ?3)
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths >= 2 AND service IN (SELECT value FROM json_each(?2)) AND due <= ?3);

-- name: queue_counts
SELECT json_group_array(json_array(value,
         (SELECT count(*) FROM ledger WHERE service = value AND state = 'waiting' AND deaths < 2)
           + (SELECT count(*) FROM ledger WHERE service = value AND state = 'waiting' AND deaths >= 2),
         (SELECT count(*) FROM ledger WHERE state = 'claimed' AND service = value),
         (SELECT count(*) FROM ledger WHERE state = 'dead' AND service = value)))
FROM json_each(?);

-- name: claims_by_worker
SELECT json_group_array(json_array(worker, service, events, documents, until, json(examples))) FROM (
  SELECT worker, service, count(*) AS events, sum(json_array_length(ids)) AS documents, min(lease) AS until,
         json_group_array(json_array(collection, json_extract(ids, '$[0][0]')))
           FILTER (WHERE place <= ?1 AND json_array_length(ids) > 0) AS examples
  FROM (SELECT worker, service, collection, ids, lease,
               row_number() OVER (PARTITION BY worker, service ORDER BY id) AS place
        FROM ledger WHERE state = 'claimed')
  GROUP BY worker, service ORDER BY worker, service);

-- name: cursors
SELECT json_group_array(json(cursor))
FROM ledger INDEXED BY ledger_claimed
WHERE state = 'claimed' AND service = ? AND cursor IS NOT NULL;
