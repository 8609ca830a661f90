-- Successes of services, by version.

-- name: add_successes
INSERT INTO successes (service, version, n, first, last) VALUES {values}
ON CONFLICT (service, version) DO UPDATE SET
  n = n + excluded.n, first = min(first, excluded.first), last = max(last, excluded.last);

-- name: merge_success_changes
-- Nothing: `add_successes` has updated the counts.
SELECT 1 WHERE false;

-- name: successes
SELECT json_group_array(json_array(service, version, n, first, last))
FROM successes WHERE service IN (SELECT value FROM json_each(?));

-- name: prune_successes
-- Of versions that are not kept any more.
DELETE FROM successes WHERE version <> '' AND version NOT IN (SELECT version FROM versions);
