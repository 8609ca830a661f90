-- A worker has one lease for all that it has claimed, so that renewing it writes one row. The column `lease` of the
-- ledger is that of workers from before this version, which can go on beside newer ones.
CREATE TABLE leases (
  worker text   PRIMARY KEY,
  until  float8 NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- Changes of counts are appended, and added to the counts about once a second. Rows that every commit updates would
-- have a version for each commit for as long as a transaction is open, and each commit would read them all.
CREATE TABLE status_changes (
  source     text   COLLATE "C" NOT NULL,
  collection text   COLLATE "C" NOT NULL,
  status     text   COLLATE "C" NOT NULL,
  n          bigint NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE TABLE success_changes (
  service text   COLLATE "C" NOT NULL,
  version text   COLLATE "C" NOT NULL,
  n       bigint NOT NULL,
  first   float8 NOT NULL,
  last    float8 NOT NULL
) WITH (autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000, autovacuum_vacuum_cost_delay = 0);
CREATE VIEW all_status_counts AS
  SELECT source, collection, status, n FROM status_counts
  UNION ALL SELECT source, collection, status, n FROM status_changes;
CREATE VIEW all_successes AS
  SELECT service, version, n, first, last FROM successes
  UNION ALL SELECT service, version, n, first, last FROM success_changes;
