-- State and content of documents.
-- The conventions are in ledger/named_statements.py. A query returns one row of JSON: stepping through rows would
-- release the interpreter lock at every step, and with a busy handler it takes milliseconds to get it again.

-- name: documents
SELECT json_group_array(json_array(doc, status, attempt_count, last_attempt_time,
                                   iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), priority, round, row, size,
                                   fingerprint, expires, retry_at, revision, dead_letter, failed_batch, id, source,
                                   parent, joined))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: documents_without_history
-- For claims: errors and histories are long, and are not needed to read a document.
SELECT json_group_array(json_array(doc, status, attempt_count, last_attempt_time, NULL, NULL, priority, round, row, size,
                                   fingerprint, expires, retry_at, revision, dead_letter, failed_batch, id, source,
                                   parent, joined))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: document
SELECT json_array(status, attempt_count, last_attempt_time, created_at, updated_at,
                  iif(typeof(last_error) = 'text', last_error, NULL),
                  iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision, round, row,
                  dead_letter, source, parent, failed_batch, expires)
FROM documents WHERE collection = ? AND id = ?;

-- name: bodies
SELECT json_group_array(json_array(doc, body)) FROM bodies WHERE doc IN (SELECT value FROM json_each(?));

-- name: bodies_by_id
SELECT json_group_array(json_array(d.id, d.revision, b.body))
FROM documents d JOIN bodies b ON b.doc = d.doc
WHERE d.collection = ? AND d.id IN (SELECT value FROM json_each(?));

-- name: insert_documents
INSERT INTO documents (doc, status, attempt_count, last_attempt_time, last_error, attempts, priority, round, row,
                       size, fingerprint, source, id, parent, collection, created_at, updated_at, expires)
VALUES {values};

-- name: insert_bodies
INSERT INTO bodies (doc, body) VALUES {values};

-- name: update_documents
UPDATE documents SET
  status = v.column2, attempt_count = v.column3, last_attempt_time = v.column4, last_error = v.column5,
  attempts = v.column6, priority = v.column7, round = v.column8, row = v.column9, size = v.column10,
  fingerprint = v.column11, expires = v.column12, retry_at = v.column13, revision = v.column14,
  dead_letter = v.column15, failed_batch = v.column16, updated_at = v.column17, check_at = 0
FROM (VALUES {values}) AS v WHERE documents.doc = v.column1;

-- name: update_bodies
UPDATE bodies SET body = v.column2 FROM (VALUES {values}) AS v WHERE bodies.doc = v.column1;

-- name: delete_documents
DELETE FROM documents WHERE doc IN (SELECT value FROM json_each(?));

-- name: delete_bodies
DELETE FROM bodies WHERE doc IN (SELECT value FROM json_each(?));

-- name: children
SELECT json_group_array(json_array(collection, id))
FROM documents WHERE parent IN (SELECT value FROM json_each(?));

-- name: children_of
SELECT json_group_array(json_array(parent, id, status, revision, failed_batch IS NOT NULL))
FROM documents
WHERE parent IN (SELECT value FROM json_each(?1)) AND +collection = ?2 AND (?3 IS NULL OR status <> ?3);

-- name: children_counts
SELECT json_group_array(json_array(collection, status, n))
FROM (SELECT collection, status, count(*) AS n FROM documents WHERE parent = ? GROUP BY collection, status);

-- name: statuses
SELECT json_group_array(json_array(id, status))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: states_by_id
SELECT json_group_array(json_array(id, status, attempt_count, last_attempt_time, created_at, updated_at,
                                   iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: document_page
SELECT json_group_array(json_array(id, status, attempt_count, last_attempt_time, created_at, updated_at,
                                   iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT * FROM documents
      WHERE collection = ?1 AND id > ?2
      ORDER BY id LIMIT ?3);

-- name: found_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT * FROM documents
      WHERE collection = ?1 AND id > ?2 AND (?3 IS NULL OR status = ?3) AND (?4 IS NULL OR source = ?4)
        AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: unfinished_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT * FROM documents INDEXED BY documents_unfinished
      WHERE collection = ?1 AND id > ?2 AND status = ?3
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND (?4 IS NULL OR source = ?4) AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: given_up_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT * FROM documents
      WHERE collection = ?1 AND id > ?2 AND status = ?3
        AND status IN ('failed', 'failed_max_retries', 'discarded') AND (?4 IS NULL OR source = ?4)
        AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: states_of_source
-- Sorts the documents of a source.
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT * FROM documents INDEXED BY documents_of_source
      WHERE source = ?4 AND collection = ?1 AND status IN (SELECT value FROM json_each(?3)) AND id > ?2
        AND (?5 IS NULL OR coalesce(updated_at, 0) < ?5)
      ORDER BY id LIMIT ?6);

-- name: group_states
SELECT json_group_array(json_array(collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT * FROM documents
      WHERE fingerprint = ?1 AND (collection, id) > (?2, ?3) AND (?4 IS NULL OR collection = ?4)
        AND (?5 IS NULL OR status = ?5) AND (?6 IS NULL OR source = ?6)
        AND (?7 IS NULL OR coalesce(updated_at, 0) < ?7)
      ORDER BY collection, id LIMIT ?8);

-- name: states_of_groups
SELECT json_group_array(json_array(fingerprint, collection, id, status, attempt_count, last_attempt_time, created_at,
                                   updated_at, iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch, expires))
FROM (SELECT value FROM json_each(?1)) AS wanted CROSS JOIN documents
WHERE doc IN (SELECT doc FROM documents d WHERE d.fingerprint = wanted.value ORDER BY d.collection, d.id LIMIT ?2);

-- name: ids_like
SELECT json_group_array(json_array(collection, id))
FROM (SELECT d.collection, d.id
      FROM (SELECT DISTINCT collection FROM status_counts) c CROSS JOIN documents d
      WHERE d.collection = c.collection AND d.id >= ?1 AND d.id < ?2
      ORDER BY d.collection, d.id LIMIT ?3);

-- name: documents_of_source
SELECT json_group_array(json_array(collection, id))
FROM (SELECT collection, id FROM documents WHERE source = ? LIMIT 1000);

-- name: generations
SELECT json_group_array(json_array(source, generation))
FROM sources WHERE source IN (SELECT value FROM json_each(?));

-- name: bump_generation
INSERT INTO sources (source, generation) VALUES (?, 1)
ON CONFLICT (source) DO UPDATE SET generation = generation + 1;

-- name: changed_documents
-- Not as JSON, which rounds times: the last row of a page is where the next page begins.
SELECT coalesce(updated_at, 0), doc, id FROM documents INDEXED BY documents_changed
WHERE collection = ?1 AND status = ?2 AND coalesce(updated_at, 0) <= ?3
  AND (coalesce(updated_at, 0) < ?3 OR doc < ?4)
ORDER BY coalesce(updated_at, 0) DESC, doc DESC LIMIT ?5;

-- name: changed_documents_oldest
SELECT coalesce(updated_at, 0), doc, id FROM documents INDEXED BY documents_changed
WHERE collection = ?1 AND status = ?2 AND coalesce(updated_at, 0) >= ?3
  AND (coalesce(updated_at, 0) > ?3 OR doc > ?4)
ORDER BY coalesce(updated_at, 0), doc LIMIT ?5;

-- name: changed_documents_of_source
SELECT coalesce(updated_at, 0), doc, id FROM documents INDEXED BY documents_of_source
WHERE source = ?6 AND collection = ?1 AND status = ?2 AND coalesce(updated_at, 0) <= ?3
  AND (coalesce(updated_at, 0) < ?3 OR doc < ?4)
ORDER BY coalesce(updated_at, 0) DESC, doc DESC LIMIT ?5;

-- name: changed_documents_of_source_oldest
SELECT coalesce(updated_at, 0), doc, id FROM documents INDEXED BY documents_of_source
WHERE source = ?6 AND collection = ?1 AND status = ?2 AND coalesce(updated_at, 0) >= ?3
  AND (coalesce(updated_at, 0) > ?3 OR doc > ?4)
ORDER BY coalesce(updated_at, 0), doc LIMIT ?5;
