-- A worker has one lease for all that it has claimed, so that renewing it writes one row. The column `lease` of the
-- ledger is that of workers from before this version.
CREATE TABLE leases (
  worker TEXT PRIMARY KEY,
  until  REAL NOT NULL
) WITHOUT ROWID;
INSERT INTO leases SELECT worker, max(lease) FROM ledger
WHERE state = 'claimed' AND worker IS NOT NULL AND lease IS NOT NULL GROUP BY worker;
