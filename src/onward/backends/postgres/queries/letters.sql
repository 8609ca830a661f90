-- Dead letters, as an operator handles them. Which ones match is found first, each way by the index that
-- holds only those; whole ones are read afterwards.

-- name: find_letters :column
SELECT id FROM ledger WHERE state = 'dead' AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND ($3::text IS NULL OR coalesce(errors::json #>> '{last,-1,error_type}',
                                    errors::json #>> '{first,error_type}') = $3)
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: find_letters_of_service :column
-- CASE: the planner takes half of all to have an error, and so does not read the errors of all before it sorts.
SELECT id FROM ledger WHERE state = 'dead' AND service = $7 AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND CASE WHEN coalesce(errors::json #>> '{last,-1,error_type}', errors::json #>> '{first,error_type}') = $3::text
           THEN true ELSE $3::text IS NULL END
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: find_letters_of_group :column
SELECT id FROM ledger WHERE state = 'dead' AND fingerprint = $8 AND ($7::text IS NULL OR service = $7) AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND ($3::text IS NULL OR coalesce(errors::json #>> '{last,-1,error_type}',
                                    errors::json #>> '{first,error_type}') = $3)
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: find_archived_letters :column
SELECT id FROM ledger
WHERE state = 'archived' AND ($8::text IS NULL OR fingerprint = $8) AND ($7::text IS NULL OR service = $7)
  AND id > $1
  AND ($2::float8 IS NULL OR settled_at >= $2::float8)
  AND ($3::text IS NULL OR coalesce(errors::json #>> '{last,-1,error_type}',
                                    errors::json #>> '{first,error_type}') = $3)
  AND ($4::text IS NULL OR (collection = $4 AND EXISTS (
        SELECT 1 FROM json_array_elements(ids) one WHERE one ->> 0 = $5::text)))
ORDER BY id LIMIT $6;

-- name: letters
SELECT id, service, event_id, event_type, version, data::json, timestamp, key, collection, ids, round,
       tries + not_ready, errors, deaths, reason, encode(raw, 'hex'), raw IS NOT NULL, settled_at
FROM ledger WHERE id = ANY ($1::bigint[]) AND state = $2;

-- name: row_states
SELECT id, state FROM ledger WHERE id = ANY ($1::bigint[]);

-- name: move_letters
UPDATE ledger SET state = $2 WHERE id = ANY ($3::bigint[]) AND state = $1;

-- name: letter_groups
SELECT service, fingerprint, count(*), min(settled_at), max(settled_at), max(id)
FROM ledger WHERE state = 'dead' GROUP BY service, fingerprint;

-- name: archived_letter_groups
SELECT service, fingerprint, count(*), min(settled_at), max(settled_at), max(id)
FROM ledger WHERE state = 'archived' GROUP BY service, fingerprint;
