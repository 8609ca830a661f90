-- Full text is ranked by Onward itself, alike on every database: the postings of a term are packed into blobs.
DROP INDEX texts_stems;
DROP INDEX texts_size;
ALTER TABLE texts RENAME TO old_texts;
ALTER INDEX texts_pkey RENAME TO old_texts_pkey;

-- The texts, for excerpts and phrases.
CREATE TABLE texts (
  doc    bigint PRIMARY KEY,
  title  text NOT NULL,
  text   text NOT NULL,
  quoted text NOT NULL
);

-- Texts that are not packed yet. A search reads all of these rows, so they are packed when there are many.
CREATE TABLE waiting_texts (
  doc        bigint  PRIMARY KEY,
  collection text    COLLATE "C" NOT NULL,
  terms      bytea,               -- each term once, between line ends; null: to be made of the text
  weights    bytea,               -- how often the text has each term, in tenths
  length     integer NOT NULL,    -- the number of words, as a code
  date       float8,
  facets     text    NOT NULL     -- a JSON object
);

-- Packed texts have numbers that are never used again. The numbers of `BLOCK_TEXTS` texts make a block.
CREATE TABLE text_numbers (
  doc    bigint  PRIMARY KEY,
  space  integer NOT NULL,        -- the label of their collection
  number integer NOT NULL
);
CREATE UNIQUE INDEX text_numbers_number ON text_numbers (space, number);
CREATE TABLE text_blocks (
  space   integer NOT NULL,
  block   integer NOT NULL,
  texts   integer NOT NULL,       -- also those that are removed
  live    integer NOT NULL,
  words   float8  NOT NULL,
  parts   integer NOT NULL,       -- the most rows of a term
  stale   integer NOT NULL,       -- removed texts that still have postings
  version integer NOT NULL,       -- grows with each change of its columns
  merged  text    COLLATE "C",    -- the term up to which its parts were merged, while they are
  PRIMARY KEY (space, block)
);
CREATE TABLE text_columns (
  space integer NOT NULL,
  block integer NOT NULL,
  name  text    COLLATE "C" NOT NULL,
  data  bytea   NOT NULL,
  PRIMARY KEY (space, block, name)
);
-- Not compressed: numbers hardly get smaller, and a search reads many of them.
ALTER TABLE text_columns ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE postings (
  space integer NOT NULL,
  block integer NOT NULL,
  part  integer NOT NULL,
  texts integer NOT NULL,         -- how many have the term
  term  text    COLLATE "C" NOT NULL,
  data  bytea   NOT NULL
);
CREATE INDEX postings_term ON postings (space, block, term, part) INCLUDE (texts); -- no two rows have the same key
ALTER TABLE postings ALTER COLUMN data SET STORAGE EXTERNAL;
CREATE TABLE text_labels (
  label integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  name  text COLLATE "C" NOT NULL, -- of a facet
  value text COLLATE "C" NOT NULL
);
-- A value may be longer than an index entry.
CREATE UNIQUE INDEX text_labels_value ON text_labels (name, md5(value));
-- Numbers of texts that are gone, until their block says so.
CREATE TABLE removed_texts (
  space  integer NOT NULL,
  number integer NOT NULL,
  PRIMARY KEY (space, number)
);

INSERT INTO texts SELECT doc, title, text, quoted FROM old_texts;
INSERT INTO waiting_texts (doc, collection, length, date, facets)
SELECT t.doc, t.collection, 0,
       (SELECT max(CASE WHEN jsonb_typeof(value) = 'number' THEN (value #>> '{}')::float8 END)
        FROM keys k WHERE k.doc = t.doc AND k.name = 'date'),
       (SELECT coalesce(jsonb_object_agg(CASE name WHEN 'thread_id' THEN 'thread' ELSE name END, value), '{}')::text
        FROM keys k WHERE k.doc = t.doc AND k.name IN ('author', 'thread_id'))
FROM old_texts t;
DROP TABLE old_texts;
DROP TEXT SEARCH CONFIGURATION words;
DROP TEXT SEARCH DICTIONARY stem;

-- A document can have a vector of each model.
DROP INDEX removed_vectors_change;
DROP INDEX removed_vectors_at;
DROP TABLE removed_vectors;
DROP INDEX vectors_change;
ALTER TABLE vectors DROP CONSTRAINT vectors_pkey, DROP COLUMN change, ADD PRIMARY KEY (doc, model);

-- Vectors without a code yet. A search reads all of them, so they are packed when there are many.
CREATE TABLE waiting_vectors (
  doc   bigint NOT NULL,
  model text   NOT NULL,
  PRIMARY KEY (doc, model)
);
INSERT INTO waiting_vectors SELECT doc, model FROM vectors;

-- The codes of a model's vectors. The nearest codes are found first, then compared by their vectors.
CREATE TABLE vector_spaces (
  space      integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY, -- never used twice: processes keep blocks by it
  model      text    COLLATE "C" NOT NULL,
  collection text    COLLATE "C" NOT NULL,
  bytes      integer NOT NULL,    -- of a vector
  texts      integer NOT NULL,    -- the label of the collection whose texts they belong to; 0: none
  mean       bytea   NOT NULL,    -- of the first vectors; a code says in which directions a vector differs from it
  UNIQUE (model, collection, bytes, texts)
);
CREATE TABLE vector_blocks (
  space   integer NOT NULL,
  block   integer NOT NULL,
  vectors integer NOT NULL,
  version integer NOT NULL,
  docs    bytea   NOT NULL,
  texts   bytea   NOT NULL,       -- the number of the text of each document's parent
  codes   bytea   NOT NULL,
  scales  bytea   NOT NULL,       -- by which a code is compared with a query: how far its vector is from the mean
  PRIMARY KEY (space, block)
);
ALTER TABLE vector_blocks ALTER COLUMN docs SET STORAGE EXTERNAL, ALTER COLUMN texts SET STORAGE EXTERNAL,
  ALTER COLUMN codes SET STORAGE EXTERNAL, ALTER COLUMN scales SET STORAGE EXTERNAL;
-- Vectors that are gone or replaced, until their blocks say so.
CREATE TABLE removed_vectors (
  doc   bigint NOT NULL,
  model text   NOT NULL,
  PRIMARY KEY (doc, model)
);
