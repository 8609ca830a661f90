-- Counts of documents by source, collection and status.

-- name: document_counts
SELECT collection, status, sum(n)::bigint FROM all_status_counts GROUP BY collection, status HAVING sum(n) > 0;

-- name: document_counts_of_source
SELECT collection, status, sum(n)::bigint FROM all_status_counts
WHERE source = $1 GROUP BY collection, status HAVING sum(n) > 0;

-- name: document_counts_by_source
SELECT source, collection, status, sum(n)::bigint FROM all_status_counts
GROUP BY source, collection, status HAVING sum(n) > 0;

-- name: add_status_counts
INSERT INTO status_changes (source, collection, status, n)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]);

-- name: merge_status_changes
-- One process at a time, and what is being written is left for the next time.
WITH turn AS (SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/document_counts', 0)) AS mine),
taken AS (
  DELETE FROM status_changes WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM status_changes WHERE (SELECT mine FROM turn) LIMIT 10000 FOR UPDATE SKIP LOCKED))
  RETURNING source, collection, status, n)
INSERT INTO status_counts AS known (source, collection, status, shard, n)
SELECT source, collection, status, 0, sum(n) FROM taken GROUP BY 1, 2, 3 HAVING sum(n) <> 0 ORDER BY 1, 2, 3
ON CONFLICT (source, collection, status, shard) DO UPDATE SET n = known.n + excluded.n;

-- name: take_status_counts
WITH counts AS (
  DELETE FROM status_counts
  WHERE ctid = ANY (ARRAY (SELECT ctid FROM status_counts WHERE source = $1 FOR UPDATE SKIP LOCKED))
  RETURNING collection, status, n),
changes AS (
  DELETE FROM status_changes
  WHERE ctid = ANY (ARRAY (SELECT ctid FROM status_changes WHERE source = $1 FOR UPDATE SKIP LOCKED))
  RETURNING collection, status, n)
SELECT * FROM counts UNION ALL SELECT * FROM changes;

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
FROM (SELECT source FROM all_status_counts WHERE source <> ''
      GROUP BY source, collection, status HAVING sum(n) > 0) AS found ORDER BY source;
