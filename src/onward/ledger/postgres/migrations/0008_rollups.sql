-- What services did, by time. Processes append parts; once a minute one of them adds these to the roll-ups, so that
-- no two processes write the same row.
CREATE TABLE rollup_parts (
  bucket       bigint NOT NULL, -- the beginning of a minute
  service      text COLLATE "C" NOT NULL,
  events       bigint NOT NULL,
  documents    bigint NOT NULL,
  failures     bigint NOT NULL,
  retries      bigint NOT NULL,
  dead_letters bigint NOT NULL,
  seconds      float8 NOT NULL,
  latencies    text NOT NULL,   -- JSON: tries by duration, without the zeros at the end
  waiting      bigint
);
CREATE INDEX rollup_parts_bucket ON rollup_parts (bucket);

CREATE TABLE rollups (
  step         bigint NOT NULL, -- seconds of a bucket
  bucket       bigint NOT NULL,
  service      text COLLATE "C" NOT NULL,
  events       bigint NOT NULL,
  documents    bigint NOT NULL,
  failures     bigint NOT NULL,
  retries      bigint NOT NULL,
  dead_letters bigint NOT NULL,
  seconds      float8 NOT NULL,
  latencies    text NOT NULL,
  waiting      bigint,
  PRIMARY KEY (step, bucket, service)
);
