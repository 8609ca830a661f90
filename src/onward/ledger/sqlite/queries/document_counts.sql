-- Counts of documents by source, collection and status.

-- name: document_counts
SELECT json_group_array(json_array(collection, status, n))
FROM (SELECT collection, status, sum(n) AS n FROM status_counts
      GROUP BY collection, status HAVING sum(n) > 0);

-- name: document_counts_of_source
SELECT json_group_array(json_array(collection, status, n))
FROM (SELECT collection, status, sum(n) AS n FROM status_counts
      WHERE source = ? GROUP BY collection, status HAVING sum(n) > 0);

-- name: document_counts_by_source
SELECT json_group_array(json_array(source, collection, status, n))
FROM (SELECT source, collection, status, sum(n) AS n FROM status_counts
      GROUP BY source, collection, status HAVING sum(n) > 0);

-- name: add_status_counts
INSERT INTO status_counts (source, collection, status, n) VALUES {values}
ON CONFLICT (source, collection, status) DO UPDATE SET n = n + excluded.n;

-- name: merge_status_changes
-- Nothing: `add_status_counts` has updated the counts.
SELECT 1 WHERE false;

-- name: take_status_counts
DELETE FROM status_counts WHERE source = ? RETURNING collection, status, n;

-- name: status_counts_page
-- The sources of the next rows, up to a limit of rows, and whether rows of a source can be merged or deleted.
SELECT json_group_array(json_array(source, scattered))
FROM (SELECT source, max(n = 0) AS scattered
      FROM (SELECT source, n FROM status_counts WHERE source > ?1 ORDER BY source LIMIT ?2) GROUP BY source ORDER BY source);

-- name: sources
SELECT json_group_array(source) FROM (SELECT DISTINCT source FROM status_counts WHERE source <> '' AND n > 0);
