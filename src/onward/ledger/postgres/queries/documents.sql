-- State and content of documents.
-- The conventions are in ledger/named_statements.py. Many ids are looked up one by one (LATERAL … OFFSET 0): a planner
-- with statistics of a small table would read the whole table instead.

-- name: documents
SELECT d.*
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT doc, status, attempt_count, last_attempt_time, last_error, attempts, priority, round, "row", size,
         fingerprint, expires, retry_at, revision, dead_letter, failed_batch, id, source, parent, joined
  FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0 {lock FOR UPDATE}) AS d;

-- name: documents_without_history
-- For claims: errors and histories are long, and are not needed to read a document.
SELECT d.*
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT doc, status, attempt_count, last_attempt_time, NULL::text AS last_error, NULL::text AS attempts, priority, round,
         "row", size, fingerprint, expires, retry_at, revision, dead_letter, failed_batch, id, source, parent, joined
  FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0) AS d;

-- name: document :row
SELECT status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at, priority,
       revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents WHERE collection = $1 AND id = $2;

-- name: bodies
SELECT doc, body FROM bodies WHERE doc = ANY ($1::bigint[]);

-- name: bodies_by_id
SELECT d.id, d.revision, b.body
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT doc, id, revision FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0) AS d
  JOIN bodies b ON b.doc = d.doc;

-- name: insert_documents
INSERT INTO documents (doc, status, attempt_count, last_attempt_time, last_error, attempts, priority, round, "row",
                       size, fingerprint, source, id, parent, collection, created_at, updated_at, expires)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::int[], $4::float8[], $5::text[], $6::text[], $7::int[],
                     $8::int[], $9::bigint[], $10::int[], $11::text[], $12::text[], $13::text[], $14::text[],
                     $15::text[], $16::float8[], $17::float8[], $18::float8[]);

-- name: insert_bodies
INSERT INTO bodies (doc, body) SELECT * FROM unnest($1::bigint[], $2::text[]);

-- name: update_documents
UPDATE documents SET
  status = v.status, attempt_count = v.attempt_count, last_attempt_time = v.last_attempt_time,
  updated_at = v.updated_at, last_error = v.last_error, attempts = v.attempts, retry_at = v.retry_at,
  priority = v.priority, revision = v.revision, round = v.round, "row" = v.live, dead_letter = v.dead_letter,
  size = v.size, failed_batch = v.failed_batch, fingerprint = v.fingerprint, expires = v.expires, check_at = 0
FROM unnest($1::bigint[], $2::text[], $3::int[], $4::float8[], $5::text[], $6::text[], $7::int[], $8::int[],
            $9::bigint[], $10::int[], $11::text[], $12::float8[], $13::float8[], $14::int[], $15::bigint[],
            $16::text[], $17::float8[])
  AS v (doc, status, attempt_count, last_attempt_time, last_error, attempts, priority, round, live, size,
        fingerprint, expires, retry_at, revision, dead_letter, failed_batch, updated_at)
WHERE documents.doc = v.doc;

-- name: update_bodies
UPDATE bodies SET body = v.body FROM unnest($1::bigint[], $2::text[]) AS v (doc, body) WHERE bodies.doc = v.doc;

-- name: delete_documents
DELETE FROM documents WHERE doc = ANY ($1::bigint[]);

-- name: delete_bodies
DELETE FROM bodies WHERE doc = ANY ($1::bigint[]);

-- name: children
SELECT collection, id FROM documents WHERE parent = ANY ($1::text[]);

-- name: children_of
SELECT parent, id, status, revision, failed_batch IS NOT NULL
FROM documents
WHERE parent = ANY ($1::text[]) AND collection || '' = $2 AND ($3::text IS NULL OR status <> $3);

-- name: children_counts
SELECT collection, status, count(*) FROM documents WHERE parent = $1 GROUP BY collection, status;

-- name: statuses
SELECT d.id, d.status
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT id, status FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0) AS d;

-- name: states_by_id
SELECT d.*
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
         priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
  FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0 {lock FOR UPDATE}) AS d;

-- name: document_page
SELECT id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at, priority,
       revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents
WHERE collection = $1 AND id > $2
ORDER BY id LIMIT $3;

-- name: found_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents
WHERE collection = $1 AND id > $2 AND ($3::text IS NULL OR status = $3) AND ($4::text IS NULL OR source = $4)
  AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id LIMIT $6;

-- name: unfinished_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents
WHERE collection = $1 AND id > $2 AND status = $3
  AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded') AND doc > 0
  AND ($4::text IS NULL OR source = $4) AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id LIMIT $6;

-- name: given_up_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents
WHERE collection = $1 AND id > $2 AND status = $3
  AND status IN ('failed', 'failed_max_retries', 'discarded') AND ($4::text IS NULL OR source = $4)
  AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id LIMIT $6;

-- name: states_of_source
-- Sorts the documents of a source. `|| ''`: by the index of sources, whatever else could be used.
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents
WHERE source = $4 AND collection = $1 AND status = ANY ($3::text[]) AND id || '' > $2
  AND ($5::float8 IS NULL OR coalesce(updated_at, 0) < $5::float8)
ORDER BY id || '' LIMIT $6;

-- name: group_states
SELECT collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at,
       priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
FROM documents
WHERE fingerprint = $1 AND (collection, id) > ($2, $3) AND ($4::text IS NULL OR collection = $4)
  AND ($5::text IS NULL OR status = $5) AND ($6::text IS NULL OR source = $6)
  AND ($7::float8 IS NULL OR coalesce(updated_at, 0) < $7::float8)
ORDER BY collection, id LIMIT $8;

-- name: states_of_groups
SELECT d.*
FROM unnest($1::text[]) AS wanted (fingerprint) CROSS JOIN LATERAL (
  SELECT fingerprint, collection, id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error,
         attempts, retry_at, priority, revision, round, "row", dead_letter, source, parent, failed_batch, expires
  FROM documents WHERE fingerprint = wanted.fingerprint ORDER BY fingerprint, collection, id LIMIT $2::bigint) AS d;

-- name: ids_like
SELECT d.collection, d.id
FROM (SELECT DISTINCT collection FROM all_status_counts) c
  CROSS JOIN LATERAL (SELECT collection, id FROM documents
                      WHERE collection = c.collection AND id >= $1 AND id < $2 ORDER BY id LIMIT $3::bigint) d
ORDER BY d.collection, d.id LIMIT $3::bigint;

-- name: documents_of_source
SELECT collection, id FROM documents WHERE source = $1 LIMIT 1000;

-- name: generations
SELECT source, generation FROM sources WHERE source = ANY ($1::text[]);

-- name: bump_generation
INSERT INTO sources AS known (source, generation) VALUES ($1, 1)
ON CONFLICT (source) DO UPDATE SET generation = known.generation + 1;

-- name: changed_documents
SELECT coalesce(updated_at, 0), doc, id FROM documents
WHERE collection = $1 AND status = $2 AND (coalesce(updated_at, 0), doc) < ($3::float8, $4::bigint)
ORDER BY coalesce(updated_at, 0) DESC, doc DESC LIMIT $5;

-- name: changed_documents_oldest
SELECT coalesce(updated_at, 0), doc, id FROM documents
WHERE collection = $1 AND status = $2 AND (coalesce(updated_at, 0), doc) > ($3::float8, $4::bigint)
ORDER BY coalesce(updated_at, 0), doc LIMIT $5;

-- name: changed_documents_of_source
SELECT coalesce(updated_at, 0), doc, id FROM documents
WHERE source = $6 AND collection = $1 AND status = $2 AND (coalesce(updated_at, 0), doc) < ($3::float8, $4::bigint)
ORDER BY coalesce(updated_at, 0) DESC, doc DESC LIMIT $5;

-- name: changed_documents_of_source_oldest
SELECT coalesce(updated_at, 0), doc, id FROM documents
WHERE source = $6 AND collection = $1 AND status = $2 AND (coalesce(updated_at, 0), doc) > ($3::float8, $4::bigint)
ORDER BY coalesce(updated_at, 0), doc LIMIT $5;
