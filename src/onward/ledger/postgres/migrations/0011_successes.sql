-- What each version of a service has finished: documents, or events where the service finishes none. A diagnosis
-- compares failures with it, so it counts documents that were forgotten since, too.
-- Each connection has its own rows, so that simultaneous commits do not wait for each other.
CREATE TABLE successes (
  service text    COLLATE "C" NOT NULL,
  version text    COLLATE "C" NOT NULL,
  shard   integer NOT NULL,
  n       bigint  NOT NULL,
  first   float8  NOT NULL,
  last    float8  NOT NULL,
  PRIMARY KEY (service, version, shard)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);

-- The successes of the service, by version, when the group began, and when it was last seen.
ALTER TABLE failure_groups DROP COLUMN processed_before;
ALTER TABLE failure_groups ADD COLUMN succeeded_before json NOT NULL DEFAULT '{}';
ALTER TABLE failure_groups ADD COLUMN succeeded_at_last json NOT NULL DEFAULT '{}';
ALTER TABLE failure_groups ADD COLUMN library text NOT NULL DEFAULT '';
