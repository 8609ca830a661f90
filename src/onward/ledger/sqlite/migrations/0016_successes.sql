-- What each version of a service has finished: documents, or events where the service finishes none. A diagnosis
-- compares failures with it, so it counts documents that were forgotten since, too.
CREATE TABLE successes (
  service TEXT    NOT NULL,
  version TEXT    NOT NULL,
  n       INTEGER NOT NULL,
  first   REAL    NOT NULL,
  last    REAL    NOT NULL,
  PRIMARY KEY (service, version)
) WITHOUT ROWID;

-- The successes of the service, by version, when the group began, and when it was last seen.
ALTER TABLE failure_groups DROP COLUMN processed_before;
ALTER TABLE failure_groups ADD COLUMN succeeded_before TEXT NOT NULL DEFAULT '{}';
ALTER TABLE failure_groups ADD COLUMN succeeded_at_last TEXT NOT NULL DEFAULT '{}';
ALTER TABLE failure_groups ADD COLUMN library TEXT NOT NULL DEFAULT '';
