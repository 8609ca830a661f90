-- Documents, as an operator steers them; actions.

-- name: log_action
INSERT INTO actions (at, who, via, action, about, touched) VALUES (?, ?, ?, ?, ?, ?);

-- name: actions
SELECT json_group_array(json_array(id, at, who, via, action, json(about), touched))
FROM (SELECT * FROM actions
      WHERE ?1 IS NULL OR (at, id) < (SELECT at, id FROM actions WHERE id = ?1)
      ORDER BY at DESC, id DESC LIMIT ?2);

-- name: found_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch))
FROM (SELECT * FROM documents
      WHERE collection = ?1 AND id > ?2 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR source = ?4)
        AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: unfinished_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch))
FROM (SELECT * FROM documents INDEXED BY documents_unfinished
      WHERE collection = ?1 AND id > ?2 AND status = ?3
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND (?4 IS NULL OR source = ?4) AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: given_up_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch))
FROM (SELECT * FROM documents
      WHERE collection = ?1 AND id > ?2 AND status = ?3
        AND status IN ('failed', 'failed_max_retries', 'discarded') AND (?4 IS NULL OR source = ?4)
        AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: group_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch))
FROM (SELECT * FROM documents
      WHERE fingerprint = ?1 AND (collection, id) > (?2, ?3) AND (?4 IS NULL OR collection = ?4)
        AND (?5 IS NULL OR status = ?5) AND (?6 IS NULL OR source = ?6)
        AND (?7 IS NULL OR coalesce(updated_at, 0) < ?7)
      ORDER BY collection, id LIMIT ?8);

-- name: hurry_row
UPDATE ledger SET due = ?, priority = coalesce(?, priority), announced = ? WHERE id = ?;
