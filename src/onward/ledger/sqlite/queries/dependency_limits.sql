-- The limits of dependencies. They are fetched, not read as JSON, which rounds times.

-- name: lock_dependency_limits
SELECT dependency, tokens, at, slack, slack_at, rate, concurrency
FROM dependency_limits WHERE dependency IN (SELECT value FROM json_each(?)) ORDER BY dependency;

-- name: dependency_limits
SELECT dependency, tokens, at, slack, slack_at, rate, concurrency FROM dependency_limits ORDER BY dependency;

-- name: add_dependency_limit
INSERT INTO dependency_limits (dependency) VALUES (?) ON CONFLICT (dependency) DO NOTHING;

-- name: save_dependency_limit
UPDATE dependency_limits
SET tokens = ?, at = ?, slack = ?, slack_at = ?, rate = ?, concurrency = ?
WHERE dependency = ?;

-- name: declare_dependency_limit
UPDATE dependency_limits SET rate = ?, concurrency = ? WHERE dependency = ?;

-- name: claimed_for_dependency
SELECT count(*) FROM ledger
WHERE state = 'claimed' AND service IN (
  SELECT service FROM subscriptions WHERE EXISTS (SELECT 1 FROM json_each(needs) WHERE value = ?1));
