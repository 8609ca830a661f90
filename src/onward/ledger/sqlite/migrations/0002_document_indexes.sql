-- A document that failed while the rest of its task went on waits in a failed batch.
ALTER TABLE documents ADD COLUMN failed_batch TEXT;
CREATE INDEX documents_batch ON documents (failed_batch) WHERE failed_batch IS NOT NULL;

CREATE TABLE failed_batches (
  id          TEXT PRIMARY KEY,
  service     TEXT    NOT NULL,
  source      TEXT,
  errors      TEXT    NOT NULL,
  retry_count INTEGER NOT NULL DEFAULT 0,
  retry_after REAL    NOT NULL,
  created_at  REAL    NOT NULL
);

-- Fields by which documents can be found, as their document class declares.
CREATE TABLE keys (
  doc   INTEGER NOT NULL,
  name  TEXT    NOT NULL,
  value         NOT NULL,
  PRIMARY KEY (doc, name, value)
) WITHOUT ROWID;
CREATE INDEX keys_value ON keys (name, value);

CREATE VIRTUAL TABLE texts USING fts5 (
  title, text, quoted, tokenize = 'porter unicode61 remove_diacritics 2'
);

CREATE TABLE vectors (
  doc    INTEGER PRIMARY KEY,
  model  TEXT NOT NULL,
  vector BLOB NOT NULL
);

-- The number of documents, updated with every commit: counting them would read them all.
CREATE TABLE status_counts (
  source     TEXT    NOT NULL,          -- '' for what belongs to none
  collection TEXT    NOT NULL,
  status     TEXT    NOT NULL,
  n          INTEGER NOT NULL,
  PRIMARY KEY (source, collection, status)
) WITHOUT ROWID;
INSERT INTO status_counts
SELECT coalesce(source, ''), collection, status, count(*) FROM documents GROUP BY 1, 2, 3;
