-- Full text is ranked by Onward itself, alike on every database: the postings of a term are packed into blobs.
ALTER TABLE texts RENAME TO old_texts;

-- The texts, for excerpts and phrases.
CREATE TABLE texts (
  doc    INTEGER PRIMARY KEY,
  title  TEXT NOT NULL,
  text   TEXT NOT NULL,
  quoted TEXT NOT NULL
);

-- Texts that are not packed yet. A search reads all of these rows, so they are packed when there are many.
CREATE TABLE waiting_texts (
  doc        INTEGER PRIMARY KEY,
  collection TEXT    NOT NULL,
  terms      BLOB,                -- each term once, between line ends; null: to be made of the text
  weights    BLOB,                -- how often the text has each term, in tenths
  length     INTEGER NOT NULL,    -- the number of words, as a code
  date       REAL,
  facets     TEXT    NOT NULL     -- a JSON object
);

-- Packed texts have numbers that are never used again. The numbers of `BLOCK_TEXTS` texts make a block.
CREATE TABLE text_numbers (
  doc    INTEGER PRIMARY KEY,
  space  INTEGER NOT NULL,        -- the label of their collection
  number INTEGER NOT NULL
);
CREATE UNIQUE INDEX text_numbers_number ON text_numbers (space, number);
CREATE TABLE text_blocks (
  space   INTEGER NOT NULL,
  block   INTEGER NOT NULL,
  texts   INTEGER NOT NULL,       -- also those that are removed
  live    INTEGER NOT NULL,
  words   REAL    NOT NULL,
  parts   INTEGER NOT NULL,       -- the most rows of a term
  stale   INTEGER NOT NULL,       -- removed texts that still have postings
  version INTEGER NOT NULL,       -- grows with each change of its columns
  merged  TEXT,                   -- the term up to which its parts were merged, while they are
  PRIMARY KEY (space, block)
) WITHOUT ROWID;
CREATE TABLE text_columns (
  space INTEGER NOT NULL,
  block INTEGER NOT NULL,
  name  TEXT    NOT NULL,
  data  BLOB    NOT NULL,
  PRIMARY KEY (space, block, name)
);
CREATE TABLE postings (
  space INTEGER NOT NULL,
  block INTEGER NOT NULL,
  term  TEXT    NOT NULL,
  part  INTEGER NOT NULL,
  texts INTEGER NOT NULL,         -- how many have the term
  data  BLOB    NOT NULL
);
-- Apart from the data, which would be read wherever two terms are compared; no two rows have the same key.
CREATE INDEX postings_term ON postings (space, block, term, part, texts);
CREATE TABLE text_labels (
  label INTEGER PRIMARY KEY,
  name  TEXT NOT NULL,            -- of a facet
  value TEXT NOT NULL,
  UNIQUE (name, value)
);
-- Numbers of texts that are gone, until their block says so.
CREATE TABLE removed_texts (
  space  INTEGER NOT NULL,
  number INTEGER NOT NULL,
  PRIMARY KEY (space, number)
) WITHOUT ROWID;

INSERT INTO texts SELECT t.rowid, t.title, t.text, t.quoted FROM old_texts t JOIN documents d ON d.doc = t.rowid;
INSERT INTO waiting_texts (doc, collection, length, date, facets)
SELECT t.doc, d.collection, 0,
       (SELECT max(value) FROM keys k WHERE k.doc = t.doc AND k.name = 'date' AND typeof(value) IN ('real', 'integer')),
       (SELECT json_group_object(CASE name WHEN 'thread_id' THEN 'thread' ELSE name END, value)
        FROM keys k WHERE k.doc = t.doc AND k.name IN ('author', 'thread_id'))
FROM texts t JOIN documents d ON d.doc = t.doc;
DROP TABLE old_texts;

-- A document can have a vector of each model.
DROP TRIGGER vectors_inserted;
DROP TRIGGER vectors_deleted;
DROP TABLE vector_changes;
ALTER TABLE vectors RENAME TO old_vectors;
CREATE TABLE vectors (
  doc    INTEGER NOT NULL,
  model  TEXT    NOT NULL,
  vector BLOB    NOT NULL,
  PRIMARY KEY (doc, model)
);
INSERT INTO vectors SELECT doc, model, vector FROM old_vectors;
DROP TABLE old_vectors;

-- Vectors without a code yet. A search reads all of them, so they are packed when there are many.
CREATE TABLE waiting_vectors (
  doc   INTEGER NOT NULL,
  model TEXT    NOT NULL,
  PRIMARY KEY (doc, model)
) WITHOUT ROWID;
INSERT INTO waiting_vectors SELECT doc, model FROM vectors;

-- The codes of a model's vectors. The nearest codes are found first, then compared by their vectors.
CREATE TABLE vector_spaces (
  space      INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used twice: processes keep blocks by it
  model      TEXT    NOT NULL,
  collection TEXT    NOT NULL,
  bytes      INTEGER NOT NULL,    -- of a vector
  texts      INTEGER NOT NULL,    -- the label of the collection whose texts they belong to; 0: none
  mean       BLOB    NOT NULL,    -- of the first vectors; a code says in which directions a vector differs from it
  UNIQUE (model, collection, bytes, texts)
);
CREATE TABLE vector_blocks (
  space   INTEGER NOT NULL,
  block   INTEGER NOT NULL,
  vectors INTEGER NOT NULL,
  version INTEGER NOT NULL,
  docs    BLOB    NOT NULL,
  texts   BLOB    NOT NULL,       -- the number of the text of each document's parent
  codes   BLOB    NOT NULL,
  scales  BLOB    NOT NULL,       -- by which a code is compared with a query: how far its vector is from the mean
  PRIMARY KEY (space, block)
);
-- Vectors that are gone or replaced, until their blocks say so.
CREATE TABLE removed_vectors (
  doc   INTEGER NOT NULL,
  model TEXT    NOT NULL,
  PRIMARY KEY (doc, model)
) WITHOUT ROWID;
