-- Named statements. `{values}` stands for as many rows of parameters as there are.
-- Reads answer one row of JSON: stepping through rows would give up the interpreter lock at every
-- step, and a busy handler takes milliseconds to hand it back.

-- name: subscriptions
SELECT json_group_array(json_array(service, event_type, finishes, ids_field, json(naming), json(needs),
                                   failed_queue, version))
FROM subscriptions;

-- name: subscribe
INSERT INTO subscriptions (service, event_type, finishes, ids_field, naming, needs, failed_queue, version)
VALUES (?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT (service) DO UPDATE SET
  event_type = excluded.event_type, finishes = excluded.finishes, ids_field = excluded.ids_field,
  naming = excluded.naming, needs = excluded.needs, failed_queue = excluded.failed_queue,
  version = excluded.version;

-- name: unsubscribe
DELETE FROM subscriptions WHERE service = ?;

-- name: rename_rows
UPDATE ledger SET service = ? WHERE service = ? AND state <> 'done';

-- name: rename_batches
UPDATE failed_batches SET service = ? WHERE service = ?;

-- name: unrouted
SELECT json_group_array(json_array(id, event_id, event_type, version, data, timestamp, trace, source,
                                   generation, priority, due))
FROM ledger WHERE state = 'unrouted' AND event_type = ?;

-- name: generations
SELECT json_group_array(json_array(source, generation))
FROM sources WHERE source IN (SELECT value FROM json_each(?));

-- name: documents
SELECT json_group_array(json_array(doc, id, status, attempt_count, last_attempt_time,
                                   iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, size, failed_batch, fingerprint))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: document
SELECT json_array(status, attempt_count, last_attempt_time, created_at, updated_at,
                  iif(typeof(last_error) = 'text', last_error, NULL),
                  iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision, round, row,
                  dead_letter, source, parent, failed_batch)
FROM documents WHERE collection = ? AND id = ?;

-- name: bodies
SELECT json_group_array(json_array(doc, body)) FROM bodies WHERE doc IN (SELECT value FROM json_each(?));

-- name: bodies_by_id
SELECT json_group_array(json_array(d.id, d.revision, b.body))
FROM documents d JOIN bodies b ON b.doc = d.doc
WHERE d.collection = ? AND d.id IN (SELECT value FROM json_each(?));

-- name: insert_documents
INSERT INTO documents (doc, collection, id, status, attempt_count, last_attempt_time, created_at, updated_at,
                       last_error, attempts, priority, round, row, source, parent, size, fingerprint)
VALUES {values};

-- name: insert_bodies
INSERT INTO bodies (doc, body) VALUES {values};

-- name: update_documents
UPDATE documents SET
  status = v.column2, attempt_count = v.column3, last_attempt_time = v.column4, updated_at = v.column5,
  last_error = v.column6, attempts = v.column7, retry_at = v.column8, priority = v.column9,
  revision = v.column10, round = v.column11, row = v.column12, dead_letter = v.column13, size = v.column14,
  failed_batch = v.column15, fingerprint = v.column16, look_at = 0
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

-- name: waiting_keys
SELECT json_group_array(json_array(key, id))
FROM ledger WHERE state = 'waiting' AND service = ? AND key IN (SELECT value FROM json_each(?));

-- name: free_key
UPDATE ledger SET key = key || '/' || id WHERE id = ?;

-- name: twin
SELECT id FROM ledger WHERE state = 'waiting' AND service = ? AND key = ?;

-- name: known_event
SELECT json_array(id) FROM ledger WHERE event_id = ? AND state = 'dead' LIMIT 1;

-- name: meet_stranger
INSERT INTO strangers (event_id, at) VALUES (?, ?) ON CONFLICT (event_id) DO NOTHING;

-- name: forget_strangers
DELETE FROM strangers WHERE at < ?;

-- name: forget_workers
DELETE FROM workers WHERE last_seen < ?;

-- name: insert_rows
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, source, generation, announced)
VALUES {values};

-- name: insert_malformed
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key, due, errors, reason,
                    raw, settled_at, fingerprint, copied)
VALUES (?, ?, 'dead', ?, ?, 1, '{}', ?, ?, ?, ?, 'malformed', ?, ?, ?, ?);

-- name: next_priority
SELECT max(priority) FROM ledger
WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority < ?;

-- name: due_rows
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, errors))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ? AND due <= ?
      ORDER BY due, id LIMIT ?);

-- name: due_suspects
SELECT json_group_array(json_array(id, token, event_id, event_type, version, data, timestamp, key, collection,
                                   json(ids), round, priority, tries, not_ready, able, deaths, lapses, batch,
                                   cursor, source, trace, errors))
FROM (SELECT * FROM ledger
      WHERE service = ? AND state = 'waiting' AND deaths >= 2 AND due <= ?
      ORDER BY due LIMIT ?);

-- name: claimed_rows
SELECT json_group_array(json_array(id, token - 1, event_id, event_type, version, data, timestamp, key,
                                   collection, json(ids), round, priority, tries, not_ready, able, deaths, lapses,
                                   batch, cursor, source, trace, errors, service))
FROM ledger WHERE state = 'claimed' AND worker = ?;

-- name: claim_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = ?, lease = ?, started = 0
WHERE id IN (SELECT value FROM json_each(?));

-- name: adopt
UPDATE ledger SET ids = ?, round = ?, source = ?, generation = ? WHERE id = ?;

-- name: rows
SELECT json_group_array(json_array(id, service, state, key, collection, json(ids), round, priority, due, tries,
                                   not_ready, able, deaths, lapses, started, token, lease, worker, batch,
                                   cursor, errors, source, generation, reason, settled_at, fingerprint))
FROM ledger WHERE id IN (SELECT value FROM json_each(?));

-- name: done_rows
UPDATE ledger SET state = 'done', settled_at = ?, lease = NULL WHERE id IN (SELECT value FROM json_each(?));

-- The same for rows that name no documents, if they are still held under this token.
-- name: close_rows
UPDATE ledger SET state = 'done', settled_at = ?1, lease = NULL
WHERE id IN (SELECT value FROM json_each(?2)) AND token = ?3 AND state = 'claimed' AND collection IS NULL
RETURNING id, source, generation;

-- name: update_row
UPDATE ledger SET
  state = :state, ids = :ids, round = :round, due = :due, tries = :tries, not_ready = :not_ready, able = :able,
  deaths = :deaths, lapses = :lapses, started = :started, lease = :lease, batch = :batch, cursor = :cursor,
  errors = :errors, reason = :reason, settled_at = :settled_at, fingerprint = :fingerprint, announced = :announced,
  copied = :announced
WHERE id = :id;

-- name: split_row
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, tries, not_ready, able, deaths, batch, cursor, errors, source,
                    generation, reason, settled_at, fingerprint, announced, copied)
SELECT :id, service, :state, event_id, event_type, version, data, timestamp, trace, :key, collection,
       :ids, round, priority, :due, :tries, :not_ready, :able, :deaths, :batch, :cursor, :errors, source,
       generation, :reason, :settled_at, :fingerprint, :announced, :announced
FROM ledger WHERE id = :origin;

-- name: keep_raw
UPDATE ledger SET raw = ? WHERE id = ?;

-- name: delete_rows
DELETE FROM ledger WHERE id IN (SELECT value FROM json_each(?));

-- name: renew
UPDATE ledger SET lease = ? WHERE state = 'claimed' AND worker = ?;

-- name: seen
UPDATE workers SET last_seen = ? WHERE worker = ?;

-- name: claims_of
SELECT json_group_array(id) FROM ledger WHERE state = 'claimed' AND worker = ?;

-- name: lapsed
SELECT json_group_array(id) FROM ledger WHERE state = 'claimed' AND lease <= ?;

-- name: next_lapse
SELECT min(lease) FROM ledger WHERE state = 'claimed';

-- name: next_due
SELECT min(due) FROM ledger WHERE service = ? AND state = 'waiting' AND deaths < 2 AND priority = ?;

-- name: next_suspect
SELECT min(due) FROM ledger WHERE service = ? AND state = 'waiting' AND deaths >= 2;

-- name: prune_old
DELETE FROM ledger WHERE id IN
  (SELECT id FROM ledger WHERE state = 'done' AND settled_at < ? ORDER BY settled_at LIMIT 5000);

-- name: prune_many
DELETE FROM ledger WHERE id IN
  (SELECT id FROM ledger WHERE state = 'done' ORDER BY settled_at DESC LIMIT 10000 OFFSET ?);

-- name: prune_unrouted
DELETE FROM ledger WHERE id IN
  (SELECT id FROM ledger WHERE state = 'unrouted' AND due < ? ORDER BY due LIMIT 5000);

-- name: under_way
SELECT count(*) FROM ledger WHERE state = 'claimed' AND service IN (SELECT value FROM json_each(?));

-- name: in_hand
SELECT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND service IN (SELECT value FROM json_each(?1)))
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths < 2 AND service IN (SELECT value FROM json_each(?2)) AND due <= ?3)
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths >= 2 AND service IN (SELECT value FROM json_each(?2)) AND due <= ?3);

-- name: enlist
INSERT INTO workers (worker, about, last_seen) VALUES (?, ?, ?)
ON CONFLICT (worker) DO UPDATE SET about = excluded.about, last_seen = excluded.last_seen;

-- name: retire
DELETE FROM workers WHERE worker = ?;

-- name: workers
SELECT json_group_array(json_array(worker, json(about), last_seen)) FROM workers WHERE last_seen >= ?;

-- name: breakers
SELECT json_group_array(json(breaker)) FROM breakers;

-- name: save_breaker
INSERT INTO breakers (dependency, breaker) VALUES (?, ?)
ON CONFLICT (dependency) DO UPDATE SET breaker = excluded.breaker;

-- name: drop_breaker
DELETE FROM breakers WHERE dependency = ?;

-- name: log_opening
INSERT INTO openings (dependency, opened_at, reason, remedy) VALUES (?, ?, ?, ?);

-- name: log_closing
UPDATE openings SET closed_at = ? WHERE dependency = ? AND closed_at IS NULL;

-- name: openings
SELECT json_group_array(json_array(dependency, opened_at, closed_at, reason, remedy))
FROM (SELECT * FROM openings WHERE ?1 IS NULL OR dependency = ?1 ORDER BY opened_at);

-- name: dead_letters
SELECT json_group_array(json_array(id, service, event_id, event_type, version, json(data), timestamp, key,
                                   collection, json(ids), round, tries + not_ready, errors, deaths, reason,
                                   hex(raw), raw IS NOT NULL, settled_at))
FROM (SELECT * FROM ledger INDEXED BY ledger_dead
      WHERE state = 'dead' AND (?1 IS NULL OR service = ?1) AND id > ?2
      ORDER BY id LIMIT ?3);

-- name: bump_generation
INSERT INTO sources (source, generation) VALUES (?, 1)
ON CONFLICT (source) DO UPDATE SET generation = generation + 1;

-- name: documents_of_source
SELECT json_group_array(json_array(collection, id))
FROM (SELECT collection, id FROM documents WHERE source = ? LIMIT 1000);

-- name: rows_of_source
SELECT json_group_array(id) FROM (SELECT id FROM ledger WHERE source = ? LIMIT 1000);

-- name: forget_completed
DELETE FROM ledger WHERE source = ? AND state = 'done';

-- name: counts
SELECT json_group_array(json_array(service, state, n))
FROM (SELECT service, state, count(*) AS n FROM ledger GROUP BY service, state);

-- name: document_counts
SELECT json_group_array(json_array(collection, status, n))
FROM (SELECT collection, status, sum(n) AS n FROM tallies
      WHERE ?1 IS NULL OR source = ?1 GROUP BY collection, status HAVING sum(n) > 0);

-- name: tally
INSERT INTO tallies (source, collection, status, n) VALUES {values}
ON CONFLICT (source, collection, status) DO UPDATE SET n = n + excluded.n;

-- name: forget_tallies
DELETE FROM tallies WHERE source = ? AND n = 0;

-- name: sources
SELECT json_group_array(source) FROM (SELECT DISTINCT source FROM tallies WHERE source <> '' AND n > 0);

-- name: ids_like
SELECT json_group_array(json_array(collection, id))
FROM (SELECT d.collection, d.id
      FROM (SELECT DISTINCT collection FROM tallies) c CROSS JOIN documents d
      WHERE d.collection = c.collection AND d.id >= ?1 AND d.id < ?2
      ORDER BY d.collection, d.id LIMIT ?3);

-- name: cursors
SELECT json_group_array(json(cursor))
FROM ledger INDEXED BY ledger_claimed
WHERE state = 'claimed' AND service = ? AND cursor IS NOT NULL;

-- name: statuses
SELECT json_group_array(json_array(id, status))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: listed
SELECT json_group_array(json_array(id, status, attempt_count, last_attempt_time, created_at, updated_at,
                                   iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch))
FROM (SELECT * FROM documents
      WHERE collection = ?1 AND (?2 IS NULL OR status = ?2) AND (?3 IS NULL OR source = ?3) AND id > ?4
      ORDER BY id LIMIT ?5);

-- name: insert_keys
INSERT OR IGNORE INTO keys (doc, name, value) VALUES {values};

-- name: delete_keys
DELETE FROM keys WHERE doc IN (SELECT value FROM json_each(?));

-- name: found
SELECT json_group_array(json_array(k.value, d.id, d.status, d.revision, d.failed_batch IS NOT NULL))
FROM keys k JOIN documents d ON d.doc = k.doc
WHERE k.name = ? AND k.value IN (SELECT value FROM json_each(?)) AND d.collection = ?;

-- name: keyed_ids
SELECT d.id FROM keys k JOIN documents d ON d.doc = k.doc
WHERE k.name = ? AND k.value IN (SELECT value FROM json_each(?)) AND d.collection = ?;

-- name: related
SELECT json_group_array(json_array(value, other))
FROM (SELECT DISTINCT k.value, o.value AS other
      FROM keys k JOIN keys o ON o.doc = k.doc AND o.name = ?3 JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?4);

-- name: unfinished
SELECT json_group_array(value)
FROM (SELECT DISTINCT k.value FROM keys k JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?3
        AND ((d.status = 'pending' AND d.failed_batch IS NULL) OR EXISTS (
              SELECT 1 FROM documents c
              WHERE c.parent = ?3 || '/' || d.id AND +c.collection = ?4
                AND c.status = 'pending' AND c.failed_batch IS NULL)));

-- name: children_of
SELECT json_group_array(json_array(parent, id, status, revision, failed_batch IS NOT NULL))
FROM documents
WHERE parent IN (SELECT value FROM json_each(?1)) AND +collection = ?2 AND (?3 IS NULL OR status <> ?3);

-- name: insert_texts
INSERT OR REPLACE INTO texts (rowid, title, text) VALUES {values};

-- name: delete_texts
DELETE FROM texts WHERE rowid IN (SELECT value FROM json_each(?));

-- name: insert_vectors
INSERT OR REPLACE INTO vectors (doc, model, vector) VALUES {values};

-- name: delete_vectors
DELETE FROM vectors WHERE doc IN (SELECT value FROM json_each(?));

-- name: set_aside
INSERT INTO failed_batches (id, service, source, errors, retry_after, created_at) VALUES (?, ?, ?, ?, ?, ?)
ON CONFLICT (id) DO UPDATE SET errors = excluded.errors;

-- name: failed_batch_errors
SELECT errors FROM failed_batches WHERE id = ?;

-- name: failed_batches
SELECT json_group_array(json_array(
         id, service, source, json(errors), retry_count, retry_after, created_at,
         json((SELECT json_group_array(json_array(collection, d.id)) FROM documents d WHERE d.failed_batch = b.id))))
FROM failed_batches b WHERE ?1 IS NULL OR source = ?1;

-- name: drop_empty_batches
DELETE FROM failed_batches
WHERE id IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.failed_batch = failed_batches.id)
RETURNING id, retry_count, created_at;

-- name: keyed
SELECT json_group_array(value) FROM (SELECT DISTINCT value FROM keys WHERE name = ?);

-- name: not_placed
SELECT json_group_array(id)
FROM (SELECT d.id FROM documents d LEFT JOIN vectors v ON v.doc = d.doc AND v.model = ?1
      WHERE d.collection = ?2 AND d.id > ?3 AND d.status IN ('processed', 'pending') AND v.doc IS NULL
      ORDER BY d.id LIMIT ?4);
