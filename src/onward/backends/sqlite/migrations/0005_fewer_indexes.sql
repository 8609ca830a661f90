-- What others sent is known by `strangers`; only what was given up is older than those may be. An index less to
-- change with every change of state.
DROP INDEX ledger_event;
CREATE INDEX ledger_event ON ledger (event_id) WHERE state = 'dead';
