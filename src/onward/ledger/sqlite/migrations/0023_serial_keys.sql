-- Services whose deliveries run one at a time for each key, perhaps in the order of publication. `serial_key` is the
-- key of a row, stored when it is first claimed, and `first_due` when it was due then. A row that waits for its key
-- has the due time 253370764800 (year 9999).
ALTER TABLE subscriptions ADD COLUMN per_key TEXT NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN serial_key TEXT;
ALTER TABLE ledger ADD COLUMN first_due REAL;
CREATE INDEX ledger_serial_key ON ledger (service, serial_key, first_due, id)
  WHERE serial_key IS NOT NULL AND state = 'waiting';
CREATE INDEX ledger_parked ON ledger (service, serial_key, first_due, id)
  WHERE state = 'waiting' AND due >= 253370764800;
-- Which row has a key now: it is claimed, or may be claimed next.
CREATE TABLE key_holders (
  service    TEXT    NOT NULL,
  serial_key TEXT    NOT NULL,
  holder     INTEGER NOT NULL,
  PRIMARY KEY (service, serial_key)
) WITHOUT ROWID;
