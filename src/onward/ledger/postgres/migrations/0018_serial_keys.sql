-- Services whose deliveries run one at a time for each key, perhaps in the order of publication. `serial_key` is the
-- key of a row, stored when it is first claimed, and `first_due` when it was due then. A row that waits for its key
-- has the due time 253370764800 (year 9999).
ALTER TABLE subscriptions ADD COLUMN per_key text NOT NULL DEFAULT '';
ALTER TABLE ledger ADD COLUMN serial_key text COLLATE "C", ADD COLUMN first_due float8;
CREATE INDEX ledger_serial_key ON ledger (service, serial_key, first_due, id)
  WHERE serial_key IS NOT NULL AND state = 'waiting';
CREATE INDEX ledger_parked ON ledger (service, serial_key, first_due, id)
  WHERE state = 'waiting' AND due >= 253370764800;
-- Which row has a key now: it is claimed, or may be claimed next.
CREATE TABLE key_holders (
  service    text   COLLATE "C" NOT NULL,
  serial_key text   COLLATE "C" NOT NULL,
  holder     bigint NOT NULL,
  PRIMARY KEY (service, serial_key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0.1, autovacuum_vacuum_cost_delay = 0);
