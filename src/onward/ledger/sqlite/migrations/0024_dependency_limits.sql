-- The rate limits of dependencies: a token bucket for the whole fleet. Rate and concurrency are as declared last.
CREATE TABLE dependency_limits (
  dependency  TEXT PRIMARY KEY NOT NULL,
  tokens      REAL,
  at          REAL,
  slack       REAL,
  slack_at    REAL,
  rate        TEXT,
  concurrency INTEGER
) WITHOUT ROWID;
