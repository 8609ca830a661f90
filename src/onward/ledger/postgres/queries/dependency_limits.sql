-- The limits of dependencies.

-- name: lock_dependency_limits
SELECT dependency, tokens, at, slack, slack_at, rate, concurrency
FROM dependency_limits WHERE dependency = ANY ($1::text[]) ORDER BY dependency {lock FOR UPDATE};

-- name: dependency_limits
SELECT dependency, tokens, at, slack, slack_at, rate, concurrency FROM dependency_limits ORDER BY dependency;

-- name: add_dependency_limit
INSERT INTO dependency_limits (dependency) VALUES ($1) ON CONFLICT (dependency) DO NOTHING;

-- name: save_dependency_limit
UPDATE dependency_limits
SET tokens = $1::float8, at = $2::float8, slack = $3::float8, slack_at = $4::float8, rate = $5,
    concurrency = $6::integer
WHERE dependency = $7;

-- name: declare_dependency_limit
UPDATE dependency_limits SET rate = $1, concurrency = $2::integer WHERE dependency = $3;

-- name: claimed_for_dependency :value
SELECT count(*) FROM ledger
WHERE state = 'claimed' AND service = ANY (ARRAY(
  SELECT service FROM subscriptions
  WHERE EXISTS (SELECT 1 FROM json_array_elements_text(needs) AS n (name) WHERE name = $1)));
