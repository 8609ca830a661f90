-- Counts of documents by source, collection and status.

-- name: document_counts
SELECT collection, status, sum(n)::bigint FROM status_counts
WHERE $1::text IS NULL OR source = $1 GROUP BY collection, status HAVING sum(n) > 0;

-- name: add_status_counts
INSERT INTO status_counts AS known (source, collection, status, shard, n)
SELECT v.source, v.collection, v.status, pg_backend_pid() % 64, v.n
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS v (source, collection, status, n)
ORDER BY 1, 2, 3
ON CONFLICT (source, collection, status, shard) DO UPDATE SET n = known.n + excluded.n;

-- name: take_status_counts
DELETE FROM status_counts WHERE ctid = ANY (ARRAY (SELECT ctid FROM status_counts WHERE source = $1 FOR UPDATE SKIP LOCKED))
RETURNING collection, status, n;

-- name: status_counts_page
-- The sources of the next rows, up to a limit of rows, and whether rows of a source can be merged or deleted.
SELECT source, bool_or(scattered)
FROM (SELECT source, count(*) > 1 OR sum(n) = 0 AS scattered
      FROM (SELECT source, collection, status, n FROM status_counts WHERE source > $1::text
            ORDER BY source, collection, status, shard LIMIT $2) AS page
      GROUP BY source, collection, status) AS counts
GROUP BY source ORDER BY source;

-- name: sources :column
SELECT DISTINCT source
FROM (SELECT source FROM status_counts WHERE source <> ''
      GROUP BY source, collection, status HAVING sum(n) > 0) AS found ORDER BY source;
