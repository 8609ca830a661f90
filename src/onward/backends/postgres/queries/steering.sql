-- Documents, as an operator steers them; actions.

-- name: log_action
INSERT INTO actions (at, who, via, action, about, touched) VALUES ($1, $2, $3, $4, $5, $6);

-- name: actions
SELECT id, at, who, via, action, about, touched FROM actions
WHERE $1::bigint IS NULL OR (at, id) < (SELECT at, id FROM actions WHERE id = $1)
ORDER BY at DESC, id DESC LIMIT $2;

-- name: found_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch
FROM documents
WHERE collection = $1 AND id > $2 AND ($3::text IS NULL OR status = $3) AND ($4::text IS NULL OR source = $4)
  AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id LIMIT $6;

-- name: unfinished_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch
FROM documents
WHERE collection = $1 AND id > $2 AND status = $3
  AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded') AND doc > 0
  AND ($4::text IS NULL OR source = $4) AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id LIMIT $6;

-- name: given_up_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch
FROM documents
WHERE collection = $1 AND id > $2 AND status = $3
  AND status IN ('failed', 'failed_max_retries', 'discarded') AND ($4::text IS NULL OR source = $4)
  AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id LIMIT $6;

-- name: group_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch
FROM documents
WHERE fingerprint = $1 AND (collection, id) > ($2, $3) AND ($4::text IS NULL OR collection = $4)
  AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR source = $6)
  AND ($7::float8 IS NULL OR coalesce(updated_at, 0) < $7::float8)
ORDER BY collection, id LIMIT $8;

-- name: hurry_row
UPDATE ledger SET due = $1, priority = coalesce($2::int, priority), announced = $3 WHERE id = $4;
