-- Documents that the retry job checks. An unfinished document without a live row is in documents_check.

-- name: acquire_role
INSERT INTO leaders (role, holder, until) VALUES (?1, ?2, ?3)
ON CONFLICT (role) DO UPDATE SET holder = excluded.holder, until = excluded.until
-- A lease longer than any that is given comes from before the clock was set back.
WHERE leaders.holder = excluded.holder OR leaders.until <= ?4 OR leaders.until > ?3;

-- name: release_role
DELETE FROM leaders WHERE role = ? AND holder = ?;

-- name: due_for_check
SELECT json_group_array(json_array(collection, id))
FROM (SELECT collection, id
      FROM (SELECT collection, id, priority, created_at, doc FROM documents INDEXED BY documents_check
            WHERE check_at <= ?1
              AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
              AND row IS NULL AND failed_batch IS NULL
              AND (?3 IS NULL OR collection IN (SELECT value FROM json_each(?3)))
            UNION
            SELECT collection, id, priority, created_at, doc FROM documents INDEXED BY documents_scheduled
            WHERE retry_at IS NOT NULL AND retry_at <= ?1 AND row IS NULL AND check_at <= ?1
              AND (?3 IS NULL OR collection IN (SELECT value FROM json_each(?3))))
      ORDER BY priority DESC, created_at, doc LIMIT ?2);

-- name: next_check
SELECT min(at)
FROM (SELECT * FROM (SELECT check_at AS at FROM documents INDEXED BY documents_check
                     WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
                       AND row IS NULL AND failed_batch IS NULL
                       AND (?1 IS NULL OR collection IN (SELECT value FROM json_each(?1)))
                     ORDER BY check_at LIMIT 1)
      UNION ALL
      SELECT min(max(retry_at, check_at)) FROM documents INDEXED BY documents_scheduled
      WHERE retry_at IS NOT NULL AND row IS NULL
        AND (?1 IS NULL OR collection IN (SELECT value FROM json_each(?1))));

-- name: defer_checks
UPDATE documents SET check_at = v.column3
FROM (VALUES {values}) AS v WHERE documents.collection = v.column1 AND documents.id = v.column2;

-- name: rows_gone
SELECT json_array(
  (SELECT max(doc) FROM (SELECT doc FROM documents WHERE doc > ?1 ORDER BY doc LIMIT ?2)),
  (SELECT json_group_array(json_array(collection, id))
   FROM (SELECT collection, id, status, row FROM documents WHERE doc > ?1 ORDER BY doc LIMIT ?2) d
   WHERE row IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = d.row AND l.state IN ('waiting', 'claimed'))));

-- name: waiting_for_backoff
SELECT json_group_array(json_array(collection, n))
FROM (SELECT collection, count(*) AS n FROM documents INDEXED BY documents_check
      WHERE check_at > ?1
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND row IS NULL AND failed_batch IS NULL
        AND status IN ('pending', 'processing') AND retry_at IS NULL AND last_error IS NOT NULL
        AND last_attempt_time + (SELECT value FROM json_each(?2) WHERE key = collection || '/' || attempt_count) > ?1
        AND coalesce(CASE WHEN json_valid(last_error) THEN json_extract(last_error, '$.round') END, round) = round
      GROUP BY collection);

-- name: stuck
SELECT json_group_array(json_array(collection, n))
FROM (SELECT collection, count(*) AS n FROM documents INDEXED BY documents_check
      WHERE check_at >= 0
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND row IS NULL AND failed_batch IS NULL
        AND (coalesce(last_attempt_time, created_at, 0)
             < coalesce((SELECT value FROM json_each(?4) WHERE key = collection), ?1)
             OR attempt_count >= coalesce((SELECT value FROM json_each(?2) WHERE key = collection), ?3))
      GROUP BY collection);
