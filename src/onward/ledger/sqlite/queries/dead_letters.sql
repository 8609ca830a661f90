-- Dead letters. The rows that match are found first, each way by an index that holds only such rows; then they are read.

-- name: find_dead_letters
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_dead
      WHERE state = 'dead' AND id > ?1
        AND (?2 IS NULL OR settled_at >= ?2)
        AND (?3 IS NULL OR coalesce(json_extract(errors, '$.last[#-1].error_type'),
                                json_extract(errors, '$.first.error_type')) = ?3)
        AND (?4 IS NULL OR (collection = ?4 AND EXISTS (
              SELECT 1 FROM json_each(ids) one WHERE json_extract(one.value, '$[0]') = ?5)))
      ORDER BY id LIMIT ?6);

-- name: find_dead_letters_of_service
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_dead_service
      WHERE state = 'dead' AND service = ?7 AND id > ?1
        AND (?2 IS NULL OR settled_at >= ?2)
        AND (?3 IS NULL OR coalesce(json_extract(errors, '$.last[#-1].error_type'),
                                json_extract(errors, '$.first.error_type')) = ?3)
        AND (?4 IS NULL OR (collection = ?4 AND EXISTS (
              SELECT 1 FROM json_each(ids) one WHERE json_extract(one.value, '$[0]') = ?5)))
      ORDER BY id LIMIT ?6);

-- name: find_dead_letters_of_group
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_dead_group
      WHERE state = 'dead' AND fingerprint = ?8 AND (?7 IS NULL OR service = ?7) AND id > ?1
        AND (?2 IS NULL OR settled_at >= ?2)
        AND (?3 IS NULL OR coalesce(json_extract(errors, '$.last[#-1].error_type'),
                                json_extract(errors, '$.first.error_type')) = ?3)
        AND (?4 IS NULL OR (collection = ?4 AND EXISTS (
              SELECT 1 FROM json_each(ids) one WHERE json_extract(one.value, '$[0]') = ?5)))
      ORDER BY id LIMIT ?6);

-- name: find_archived_dead_letters
SELECT json_group_array(id)
FROM (SELECT id FROM ledger INDEXED BY ledger_archived
      WHERE state = 'archived' AND (?8 IS NULL OR fingerprint = ?8) AND (?7 IS NULL OR service = ?7) AND id > ?1
        AND (?2 IS NULL OR settled_at >= ?2)
        AND (?3 IS NULL OR coalesce(json_extract(errors, '$.last[#-1].error_type'),
                                json_extract(errors, '$.first.error_type')) = ?3)
        AND (?4 IS NULL OR (collection = ?4 AND EXISTS (
              SELECT 1 FROM json_each(ids) one WHERE json_extract(one.value, '$[0]') = ?5)))
      ORDER BY id LIMIT ?6);

-- name: dead_letters
SELECT json_group_array(json_array(id, service, event_id, event_type, version, json(data), timestamp, key,
                                   collection, json(ids), round, tries + not_ready, errors, deaths, reason,
                                   hex(raw), raw IS NOT NULL, settled_at, properties))
FROM ledger WHERE id IN (SELECT value FROM json_each(?1)) AND state = ?2;

-- name: move_dead_letters
UPDATE ledger SET state = ?2 WHERE id IN (SELECT value FROM json_each(?3)) AND state = ?1;

-- name: dead_letter_groups
SELECT json_group_array(json_array(service, fingerprint, n, oldest, newest, example))
FROM (SELECT service, fingerprint, count(*) AS n, min(settled_at) AS oldest, max(settled_at) AS newest,
             max(id) AS example
      FROM ledger INDEXED BY ledger_dead_queue WHERE state = 'dead' GROUP BY service, fingerprint);

-- name: archived_dead_letter_groups
SELECT json_group_array(json_array(service, fingerprint, n, oldest, newest, example))
FROM (SELECT service, fingerprint, count(*) AS n, min(settled_at) AS oldest, max(settled_at) AS newest,
             max(id) AS example
      FROM ledger INDEXED BY ledger_archived WHERE state = 'archived' GROUP BY service, fingerprint);
