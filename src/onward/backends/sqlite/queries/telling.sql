-- What a document's story is told from.

-- name: told_row
SELECT json_array(id, service, state, event_type, event_id, timestamp, round, due, tries, not_ready, deaths, lease,
                  worker, reason, settled_at, json_array_length(ids))
FROM ledger WHERE id = ?;

-- name: rows_naming
-- Few settled events are kept, and of those the latest are looked through: nothing leads from a document to them.
SELECT json_group_array(json(told)) FROM (
  SELECT json_array(id, service, state, event_type, event_id, timestamp, round, due, tries, not_ready, deaths,
                    lease, worker, reason, settled_at, json_array_length(ids)) AS told
  FROM (SELECT * FROM ledger WHERE state = 'done' ORDER BY settled_at DESC LIMIT 5000)
  WHERE instr(data, json_quote(?2)) > 0
    AND (collection IS NULL
         OR (collection = ?1 AND EXISTS (SELECT 1 FROM json_each(ids) WHERE json_extract(value, '$[0]') = ?2)))
  ORDER BY settled_at DESC, id DESC LIMIT ?3);

-- name: children_counts
SELECT json_group_array(json_array(collection, status, n))
FROM (SELECT collection, status, count(*) AS n FROM documents WHERE parent = ? GROUP BY collection, status);

-- name: held
SELECT json_group_array(json_array(worker, service, events, documents, until, json(examples))) FROM (
  SELECT worker, service, count(*) AS events, sum(json_array_length(ids)) AS documents, min(lease) AS until,
         json_group_array(json_array(collection, json_extract(ids, '$[0][0]')))
           FILTER (WHERE place <= ?1 AND json_array_length(ids) > 0) AS examples
  FROM (SELECT worker, service, collection, ids, lease,
               row_number() OVER (PARTITION BY worker, service ORDER BY id) AS place
        FROM ledger WHERE state = 'claimed')
  GROUP BY worker, service ORDER BY worker, service);

-- name: queue_counts
SELECT json_group_array(json_array(value,
         (SELECT count(*) FROM ledger WHERE service = value AND state = 'waiting' AND deaths < 2)
           + (SELECT count(*) FROM ledger WHERE service = value AND state = 'waiting' AND deaths >= 2),
         (SELECT count(*) FROM ledger WHERE state = 'claimed' AND service = value),
         (SELECT count(*) FROM ledger WHERE state = 'dead' AND service = value)))
FROM json_each(?);

-- name: row_counts
-- Each state by the index that holds only it: rows are wide, and a backlog of them is long.
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

-- name: next_unannounced
SELECT min(due) FROM ledger
WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ? AND due <= ? AND announced IS NULL;
