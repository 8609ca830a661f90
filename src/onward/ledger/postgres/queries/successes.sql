-- Successes of services, by version.

-- name: add_successes
INSERT INTO success_changes (service, version, n, first, last)
SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::float8[], $5::float8[]);

-- name: merge_success_changes
WITH turn AS (SELECT pg_try_advisory_xact_lock(hashtextextended(current_schema() || '/successes', 0)) AS mine),
taken AS (
  DELETE FROM success_changes WHERE ctid = ANY (ARRAY (
    SELECT ctid FROM success_changes WHERE (SELECT mine FROM turn) LIMIT 10000 FOR UPDATE SKIP LOCKED))
  RETURNING service, version, n, first, last)
INSERT INTO successes AS known (service, version, shard, n, first, last)
SELECT service, version, 0, sum(n), min(first), max(last) FROM taken GROUP BY 1, 2 ORDER BY 1, 2
ON CONFLICT (service, version, shard) DO UPDATE SET
  n = known.n + excluded.n, first = least(known.first, excluded.first), last = greatest(known.last, excluded.last);

-- name: successes
SELECT service, version, sum(n)::bigint, min(first), max(last)
FROM all_successes WHERE service = ANY ($1::text[]) GROUP BY service, version;

-- name: prune_successes
-- Of versions that are not kept any more.
DELETE FROM successes WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM successes s
  WHERE version <> '' AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.version = s.version) FOR UPDATE SKIP LOCKED));
