-- Dead letters. The rows that match are found first, each way by an index that holds only such rows; then they are read.

-- name: find_dead_letters :column
SELECT id FROM ledger WHERE state = 'dead' AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND ($3::text IS NULL OR coalesce(errors::json #>> '{last,-1,error_type}',
                                    errors::json #>> '{first,error_type}') = $3)
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: find_dead_letters_of_service :column
-- CASE: the planner then estimates that half of the rows match, and does not read the errors of all rows to sort them.
SELECT id FROM ledger WHERE state = 'dead' AND service = $7 AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND CASE WHEN coalesce(errors::json #>> '{last,-1,error_type}', errors::json #>> '{first,error_type}') = $3::text
           THEN true ELSE $3::text IS NULL END
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: find_dead_letters_of_group :column
SELECT id FROM ledger WHERE state = 'dead' AND fingerprint = $8 AND ($7::text IS NULL OR service = $7) AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND ($3::text IS NULL OR coalesce(errors::json #>> '{last,-1,error_type}',
                                    errors::json #>> '{first,error_type}') = $3)
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: find_archived_dead_letters :column
SELECT id FROM ledger
WHERE state = 'archived' AND ($8::text IS NULL OR fingerprint = $8) AND ($7::text IS NULL OR service = $7)
  AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND ($3::text IS NULL OR coalesce(errors::json #>> '{last,-1,error_type}',
                                    errors::json #>> '{first,error_type}') = $3)
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: dead_letters
SELECT id, service, event_id, event_type, version, data::json, timestamp, key, collection, ids, round,
       tries + not_ready, errors, deaths, reason, encode(raw, 'hex'), raw IS NOT NULL, settled_at,
       properties
FROM ledger WHERE id = ANY ($1::bigint[]) AND state = $2;

-- name: move_dead_letters
UPDATE ledger SET state = $2 WHERE id = ANY ($3::bigint[]) AND state = $1;

-- name: dead_letter_groups
SELECT service, fingerprint, count(*), min(settled_at), max(settled_at), max(id)
FROM ledger WHERE state = 'dead' GROUP BY service, fingerprint;

-- name: archived_dead_letter_groups
SELECT service, fingerprint, count(*), min(settled_at), max(settled_at), max(id)
FROM ledger WHERE state = 'archived' GROUP BY service, fingerprint;
