-- What services did, by time. Processes append parts; once a minute one of them adds these to the roll-ups, so that
-- no two processes write the same row.
CREATE TABLE rollup_parts (
  bucket       INTEGER NOT NULL, -- the beginning of a minute
  service      TEXT NOT NULL,
  events       INTEGER NOT NULL,
  documents    INTEGER NOT NULL,
  failures     INTEGER NOT NULL,
  retries      INTEGER NOT NULL,
  dead_letters INTEGER NOT NULL,
  seconds      REAL NOT NULL,
  latencies    TEXT NOT NULL,    -- JSON: tries by duration, without the zeros at the end
  waiting      INTEGER
);
CREATE INDEX rollup_parts_bucket ON rollup_parts (bucket);

CREATE TABLE rollups (
  step         INTEGER NOT NULL, -- seconds of a bucket
  bucket       INTEGER NOT NULL,
  service      TEXT NOT NULL,
  events       INTEGER NOT NULL,
  documents    INTEGER NOT NULL,
  failures     INTEGER NOT NULL,
  retries      INTEGER NOT NULL,
  dead_letters INTEGER NOT NULL,
  seconds      REAL NOT NULL,
  latencies    TEXT NOT NULL,
  waiting      INTEGER,
  PRIMARY KEY (step, bucket, service)
) WITHOUT ROWID;
