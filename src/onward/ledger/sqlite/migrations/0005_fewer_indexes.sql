-- Events of other programs are found in `foreign_events`, and only dead letters may be older than its rows. So every
-- change of state updates one index less.
DROP INDEX ledger_event;
CREATE INDEX ledger_event ON ledger (event_id) WHERE state = 'dead';
