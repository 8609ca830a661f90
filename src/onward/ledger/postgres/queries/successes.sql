-- Successes of services, by version.

-- name: add_successes
INSERT INTO successes AS known (service, version, shard, n, first, last)
SELECT v.service, v.version, pg_backend_pid() % 64, v.n, v.first, v.last
FROM unnest($1::text[], $2::text[], $3::bigint[], $4::float8[], $5::float8[]) AS v (service, version, n, first, last)
ORDER BY 1, 2
ON CONFLICT (service, version, shard) DO UPDATE SET
  n = known.n + excluded.n, first = least(known.first, excluded.first), last = greatest(known.last, excluded.last);

-- name: successes
SELECT service, version, sum(n)::bigint, min(first), max(last)
FROM successes WHERE service = ANY ($1::text[]) GROUP BY service, version;

-- name: prune_successes
-- Of versions that are not kept any more.
DELETE FROM successes WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM successes s
  WHERE version <> '' AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.version = s.version) FOR UPDATE SKIP LOCKED));
