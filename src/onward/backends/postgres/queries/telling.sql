-- What a document's story is told from.

-- name: told_row :row
SELECT id, service, state, event_type, event_id, timestamp, round, due, tries, not_ready, deaths, lease,
       worker, reason, settled_at, json_array_length(ids)
FROM ledger WHERE id = $1;

-- Few settled events are kept, and of those the latest are looked through: nothing leads from a document to them.
-- name: rows_naming
SELECT id, service, 'done', event_type, event_id, timestamp, round, due, tries, not_ready, deaths, NULL,
       worker, reason, settled_at, json_array_length(ids)
FROM (SELECT * FROM completed ORDER BY settled_at DESC LIMIT 5000) AS latest
WHERE position(to_json($2::text)::text IN data) > 0
  AND (collection IS NULL
       OR (collection = $1 AND EXISTS (SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $2)))
ORDER BY settled_at DESC, id DESC LIMIT $3;

-- name: children_counts
SELECT collection, status, count(*) FROM documents WHERE parent = $1 GROUP BY collection, status;

-- name: row_counts
SELECT service, state, count(*) FROM ledger GROUP BY service, state
UNION ALL
SELECT service, 'done', count(*) FROM completed GROUP BY service;

-- name: held
SELECT worker, service, count(*), sum(json_array_length(ids)), min(lease),
       coalesce(json_agg(json_build_array(collection, ids -> 0 ->> 0) ORDER BY place)
                  FILTER (WHERE place <= $1::integer AND json_array_length(ids) > 0), '[]')
FROM (SELECT worker, service, collection, ids, lease,
             row_number() OVER (PARTITION BY worker, service ORDER BY id) AS place
      FROM ledger WHERE state = 'claimed') AS claims
GROUP BY worker, service ORDER BY worker, service;

-- name: queue_counts
SELECT s.service,
       (SELECT count(*) FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths < 2)
         + (SELECT count(*) FROM ledger WHERE service = s.service AND state = 'waiting' AND deaths >= 2),
       (SELECT count(*) FROM ledger WHERE state = 'claimed' AND service = s.service),
       (SELECT count(*) FROM ledger WHERE state = 'dead' AND service = s.service)
FROM unnest($1::text[]) AS s (service);

-- name: next_unannounced :value
SELECT due FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
  AND announced IS NULL
ORDER BY due, id LIMIT 1;
