-- The rate limits of dependencies: a token bucket for the whole fleet. Rate and concurrency are as declared last.
CREATE TABLE dependency_limits (
  dependency  text PRIMARY KEY,
  tokens      float8,
  at          float8,
  slack       float8,
  slack_at    float8,
  rate        text,
  concurrency integer
) WITH (fillfactor = 20, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000, autovacuum_vacuum_cost_delay = 0);
