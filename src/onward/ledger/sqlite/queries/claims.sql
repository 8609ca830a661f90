-- Due rows, claims and leases.

-- name: priorities
-- The priorities of a service's waiting rows, from the highest to the lowest.
WITH RECURSIVE level (priority) AS (
  SELECT max(priority) FROM ledger WHERE service = ?1 AND state = 'waiting' AND deaths < 2
  UNION ALL
  SELECT (SELECT max(priority) FROM ledger
          WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND priority < level.priority)
  FROM level WHERE level.priority IS NOT NULL)
SELECT json_group_array(priority) FROM level WHERE priority IS NOT NULL;

-- name: due_rows
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace, expires, due))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ?
        AND due >= ? AND due <= ?
      ORDER BY due, id LIMIT ?);

-- name: due_sample
-- The oldest and the newest due rows, with the number of failures of each, as a sample of a mixed queue.
SELECT json_group_array(json_array(id, failed, due))
FROM (SELECT * FROM (SELECT id, max(round - 1, 0) + tries + given_back AS failed, due FROM ledger
                     WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND priority = ?2
                       AND due >= ?3 AND due <= ?4
                     ORDER BY due, id LIMIT ?5)
      UNION
      SELECT * FROM (SELECT id, max(round - 1, 0) + tries + given_back AS failed, due FROM ledger
                     WHERE service = ?1 AND state = 'waiting' AND deaths < 2 AND priority = ?2
                       AND due >= ?3 AND due <= ?4
                     ORDER BY due DESC, id DESC LIMIT ?5));

-- name: due_suspects
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace, expires, due))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths >= 2 AND due <= ?
      ORDER BY due, id LIMIT ?);

-- name: due_among
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, failed_at, failed_trace, expires, due))
FROM (SELECT * FROM ledger NOT INDEXED
      WHERE id IN (SELECT value FROM json_each(?1)) AND service = ?2 AND state = 'waiting' AND deaths < 2
        AND due <= ?3
      ORDER BY priority DESC, due, id);

-- name: claimed_rows
SELECT json_group_array(json_array(id, token - 1, event_id, event_type, version, data, timestamp, key,
                                   collection, json(ids), round, priority, tries, not_ready, able, deaths, lapses,
                                   batch, cursor, source, trace, failed_at, failed_trace, expires, due,
                                   service))
FROM ledger WHERE state = 'claimed' AND worker = ?;

-- name: claim_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = ?, lease = NULL, started = 0
WHERE id IN (SELECT value FROM json_each(?));

-- name: hold_lease
-- Not for each claim: only if the lease would end a second later.
INSERT INTO leases (worker, until) VALUES (?, ?)
ON CONFLICT (worker) DO UPDATE SET until = excluded.until WHERE leases.until <= excluded.until - 1;

-- name: renew_lease
INSERT INTO leases (worker, until) VALUES (?, ?)
ON CONFLICT (worker) DO UPDATE SET until = excluded.until;

-- name: end_lease
UPDATE leases SET until = ?1 WHERE worker = ?2 AND until > ?1;

-- name: forget_leases
DELETE FROM leases WHERE until < ?
  AND NOT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND ledger.worker = leases.worker);

-- name: claims_of
SELECT json_group_array(id) FROM ledger WHERE state = 'claimed' AND worker = ?;

-- name: lapsed
SELECT json_group_array(id) FROM ledger
WHERE state = 'claimed' AND worker IN (SELECT worker FROM leases WHERE until <= ?);

-- name: unleased
-- Claims of workers without a lease: those of an older version, or of a commit that came after their lease was forgotten.
SELECT json_group_array(id) FROM ledger
WHERE state = 'claimed' AND (lease IS NULL OR lease <= ?)
  AND NOT EXISTS (SELECT 1 FROM leases WHERE leases.worker = ledger.worker);

-- name: next_lapse
SELECT min(until) FROM leases
WHERE EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND ledger.worker = leases.worker);

-- name: pulse
-- All that a worker without work asks for: when the next row of each service is due, whether a lease has lapsed, the
-- breakers, and whether something waits in `incoming`. For services of `?1` that is exact; for those of `?2` only
-- rows of these priorities are seen that are not below these floors. Not as JSON, which rounds times.
SELECT 'due' AS kind, name, value FROM (
  SELECT s.value AS name, (
    WITH RECURSIVE level (priority) AS (
      SELECT max(priority) FROM ledger WHERE service = s.value AND state = 'waiting' AND deaths < 2
      UNION ALL
      SELECT (SELECT max(priority) FROM ledger
              WHERE service = s.value AND state = 'waiting' AND deaths < 2 AND priority < level.priority)
      FROM level WHERE level.priority IS NOT NULL)
    SELECT min((SELECT min(due) FROM ledger
                WHERE service = s.value AND state = 'waiting' AND deaths < 2 AND priority = level.priority))
    FROM level WHERE level.priority IS NOT NULL) AS value
  FROM json_each(?1) AS s
  UNION ALL
  SELECT s.value, (
    SELECT min(due) FROM ledger
    WHERE service = s.value AND state = 'waiting' AND deaths < 2 AND priority = p.value AND due >= f.value)
  FROM json_each(?2) AS s JOIN json_each(?3) AS p ON p.key = s.key JOIN json_each(?4) AS f ON f.key = s.key)
WHERE value IS NOT NULL
UNION ALL
SELECT 'lapsed', worker, until FROM leases
WHERE until <= ?5 AND EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND ledger.worker = leases.worker)
UNION ALL
SELECT 'breaker', breaker, NULL FROM breakers
UNION ALL
SELECT 'incoming', '', NULL WHERE EXISTS (SELECT 1 FROM incoming);

-- name: next_suspects
SELECT service, due FROM (
  SELECT value AS service,
         (SELECT min(due) FROM ledger WHERE service = value AND state = 'waiting' AND deaths >= 2) AS due
  FROM json_each(?))
WHERE due IS NOT NULL;

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
  SELECT worker, service, count(*) AS events, sum(json_array_length(ids)) AS documents,
         coalesce((SELECT until FROM leases WHERE leases.worker = claims.worker), min(lease)) AS until,
         json_group_array(json_array(collection, json_extract(ids, '$[0][0]')))
           FILTER (WHERE place <= ?1 AND json_array_length(ids) > 0) AS examples
  FROM (SELECT worker, service, collection, ids, lease,
               row_number() OVER (PARTITION BY worker, service ORDER BY id) AS place
        FROM ledger WHERE state = 'claimed') AS claims
  GROUP BY worker, service ORDER BY worker, service);

-- name: cursors
SELECT json_group_array(json(cursor))
FROM ledger INDEXED BY ledger_claimed
WHERE state = 'claimed' AND service = ? AND cursor IS NOT NULL;
