-- When a wire was told of a row: null, not yet; 0, there is none to tell.
ALTER TABLE ledger ADD COLUMN announced REAL DEFAULT 0;
CREATE INDEX ledger_unannounced ON ledger (service, priority DESC, due)
  WHERE state = 'waiting' AND deaths < 2 AND announced IS NULL;
CREATE INDEX ledger_announced ON ledger (service, announced) WHERE state = 'waiting' AND announced > 0;
CREATE INDEX ledger_uncopied ON ledger (id) WHERE state = 'dead' AND announced IS NULL;
