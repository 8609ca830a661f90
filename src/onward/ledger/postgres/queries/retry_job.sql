-- Documents that the retry job checks. An unfinished document without a live row is in documents_check.

-- name: acquire_role
INSERT INTO leaders AS known (role, holder, until) VALUES ($1, $2, $3)
ON CONFLICT (role) DO UPDATE SET holder = excluded.holder, until = excluded.until
WHERE known.holder = excluded.holder OR known.until <= $4 OR known.until > $3;

-- name: release_role
DELETE FROM leaders WHERE role = $1 AND holder = $2;

-- name: due_for_check
SELECT collection, id
FROM (SELECT collection, id, priority, created_at, doc FROM documents
      WHERE check_at <= $1::float8
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND "row" IS NULL AND failed_batch IS NULL
        AND ($3::text[] IS NULL OR collection = ANY ($3::text[]))
      UNION
      SELECT collection, id, priority, created_at, doc FROM documents
      WHERE retry_at IS NOT NULL AND retry_at <= $1::float8 AND "row" IS NULL AND check_at <= $1::float8
        AND ($3::text[] IS NULL OR collection = ANY ($3::text[]))) AS due
ORDER BY priority DESC, created_at NULLS FIRST, doc LIMIT $2;

-- name: next_check :value
SELECT min(at)
FROM ((SELECT check_at AS at FROM documents
       WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
         AND "row" IS NULL AND failed_batch IS NULL
         AND ($1::text[] IS NULL OR collection = ANY ($1::text[]))
       ORDER BY check_at LIMIT 1)
      UNION ALL
      SELECT min(greatest(retry_at, check_at)) FROM documents
      WHERE retry_at IS NOT NULL AND "row" IS NULL
        AND ($1::text[] IS NULL OR collection = ANY ($1::text[]))) AS next;

-- name: defer_checks
UPDATE documents SET check_at = v.at
FROM unnest($1::text[], $2::text[], $3::float8[]) AS v (collection, id, at)
WHERE documents.collection = v.collection AND documents.id = v.id;

-- name: rows_gone :row
WITH looked_at AS (SELECT doc, collection, id, "row" FROM documents WHERE doc > $1 ORDER BY doc LIMIT $2)
SELECT (SELECT max(doc) FROM looked_at),
       (SELECT coalesce(json_agg(json_build_array(collection, id)), '[]') FROM looked_at
        WHERE "row" IS NOT NULL
          AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = looked_at."row" AND l.state IN ('waiting', 'claimed')));

-- name: waiting_for_backoff
SELECT collection, count(*) FROM documents
WHERE check_at > $1::float8
  AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
  AND "row" IS NULL AND failed_batch IS NULL
  AND status IN ('pending', 'processing') AND retry_at IS NULL AND last_error IS NOT NULL
  AND last_attempt_time + ($2::jsonb ->> (collection || '/' || attempt_count))::float8 > $1
  -- Not as JSON, for another program may have stored anything there.
  AND coalesce(left(substring(last_error FROM '"round": (\d+)'), 9)::bigint, round) = round
GROUP BY collection;

-- name: stuck
SELECT collection, count(*) FROM documents
WHERE check_at >= 0
  AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
  AND "row" IS NULL AND failed_batch IS NULL
  AND (coalesce(last_attempt_time, created_at, 0) < coalesce(($4::jsonb ->> collection)::float8, $1::float8)
       OR attempt_count >= coalesce(($2::jsonb ->> collection)::int, $3))
GROUP BY collection;
