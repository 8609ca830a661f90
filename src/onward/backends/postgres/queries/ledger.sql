-- Named statements, each with what it answers: rows (if nothing is said), column, row or value.
-- `{lock …}` is left out where nothing is to be locked: outside of a transaction, and where one only glances.
-- Many rows are given column by column, as arrays. What is looked for by many ids at once is looked for one by one
-- (LATERAL … OFFSET 0): a planner that knows a table as it was when it was small would rather read all of it.

-- name: subscriptions
SELECT service, event_type, finishes, ids_field, naming, needs, failed_queue, version FROM subscriptions;

-- name: subscribe
INSERT INTO subscriptions (service, event_type, finishes, ids_field, naming, needs, failed_queue, version)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8)
ON CONFLICT (service) DO UPDATE SET
  event_type = excluded.event_type, finishes = excluded.finishes, ids_field = excluded.ids_field,
  naming = excluded.naming, needs = excluded.needs, failed_queue = excluded.failed_queue,
  version = excluded.version;

-- name: unsubscribe
DELETE FROM subscriptions WHERE service = $1;

-- name: rename_rows
UPDATE ledger SET service = $1 WHERE service = $2;

-- name: rename_batches
UPDATE failed_batches SET service = $1 WHERE service = $2;

-- name: unrouted
SELECT id, event_id, event_type, version, data, timestamp, trace, source, generation, priority, due
FROM ledger WHERE state = 'unrouted' AND event_type = $1 ORDER BY id {lock FOR UPDATE};

-- name: generations
SELECT source, generation FROM sources WHERE source = ANY ($1::text[]);

-- name: documents
SELECT d.*
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT doc, id, status, attempt_count, last_attempt_time, last_error, attempts, retry_at, priority, revision, round,
         "row", dead_letter, source, parent, size, failed_batch, fingerprint
  FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0 {lock FOR UPDATE}) AS d;

-- name: document :row
SELECT status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at, priority,
       revision, round, "row", dead_letter, source, parent, failed_batch
FROM documents WHERE collection = $1 AND id = $2;

-- name: bodies
SELECT doc, body FROM bodies WHERE doc = ANY ($1::bigint[]);

-- name: bodies_by_id
SELECT d.id, d.revision, b.body
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT doc, id, revision FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0) AS d
  JOIN bodies b ON b.doc = d.doc;

-- name: insert_documents
INSERT INTO documents (doc, collection, id, status, attempt_count, last_attempt_time, created_at, updated_at,
                       last_error, attempts, priority, round, "row", source, parent, size, fingerprint)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::int[], $6::float8[], $7::float8[],
                     $8::float8[], $9::text[], $10::text[], $11::int[], $12::int[], $13::bigint[], $14::text[],
                     $15::text[], $16::int[], $17::text[]);

-- name: insert_bodies
INSERT INTO bodies (doc, body) SELECT * FROM unnest($1::bigint[], $2::text[]);

-- name: update_documents
UPDATE documents SET
  status = v.status, attempt_count = v.attempt_count, last_attempt_time = v.last_attempt_time,
  updated_at = v.updated_at, last_error = v.last_error, attempts = v.attempts, retry_at = v.retry_at,
  priority = v.priority, revision = v.revision, round = v.round, "row" = v.live, dead_letter = v.dead_letter,
  size = v.size, failed_batch = v.failed_batch, fingerprint = v.fingerprint, look_at = 0
FROM unnest($1::bigint[], $2::text[], $3::int[], $4::float8[], $5::float8[], $6::text[], $7::text[], $8::float8[],
            $9::int[], $10::int[], $11::int[], $12::bigint[], $13::bigint[], $14::int[], $15::text[], $16::text[])
  AS v (doc, status, attempt_count, last_attempt_time, updated_at, last_error, attempts, retry_at, priority, revision,
        round, live, dead_letter, size, failed_batch, fingerprint)
WHERE documents.doc = v.doc;

-- name: update_bodies
UPDATE bodies SET body = v.body FROM unnest($1::bigint[], $2::text[]) AS v (doc, body) WHERE bodies.doc = v.doc;

-- name: delete_documents
DELETE FROM documents WHERE doc = ANY ($1::bigint[]);

-- name: delete_bodies
DELETE FROM bodies WHERE doc = ANY ($1::bigint[]);

-- name: children
SELECT collection, id FROM documents WHERE parent = ANY ($1::text[]);

-- A twin that is being claimed just now is waited for: it may be too late to join it.
-- name: waiting_keys
SELECT l.key, l.id
FROM unnest($2::text[]) AS wanted (key) CROSS JOIN LATERAL (
  SELECT key, id FROM ledger
  WHERE state = 'waiting' AND service = $1 AND key = wanted.key OFFSET 0 {lock FOR UPDATE}) AS l;

-- name: free_key
UPDATE ledger SET key = key || '/' || id WHERE id = $1;

-- name: twin :value
SELECT id FROM ledger WHERE state = 'waiting' AND service = $1 AND key = $2 {lock FOR UPDATE};

-- name: known_event :row
SELECT id FROM ledger WHERE event_id = $1 AND state = 'dead' LIMIT 1;

-- name: meet_stranger
INSERT INTO strangers (event_id, at) VALUES ($1, $2) ON CONFLICT (event_id) DO NOTHING;

-- name: forget_strangers
DELETE FROM strangers WHERE at < $1;

-- name: forget_workers
DELETE FROM workers WHERE last_seen < $1;

-- name: insert_rows
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, trace, key, collection,
                    ids, round, priority, due, source, generation, announced)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::text[], $5::text[], $6::bigint[], $7::text[],
                     $8::float8[], $9::text[], $10::text[], $11::text[], $12::json[], $13::int[], $14::int[],
                     $15::float8[], $16::text[], $17::int[], $18::float8[]);

-- name: insert_malformed
INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key, due, errors, reason,
                    raw, settled_at, fingerprint, copied)
VALUES ($1, $2, 'dead', $3, $4, 1, '{}', $5, $6, $7, $8, 'malformed', $9, $10, $11, $12);

-- Not max() and min(): a planner that takes the table for a small one would read all that waits.
-- name: next_priority :value
SELECT priority FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority < $2::bigint
ORDER BY service DESC, priority DESC, due DESC, id DESC LIMIT 1;

-- name: due_rows
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, errors
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint AND due <= $3::float8
ORDER BY due, id LIMIT $4 {lock FOR UPDATE SKIP LOCKED};

-- name: due_suspects
SELECT id, token, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, errors
FROM ledger
WHERE service = $1 AND state = 'waiting' AND deaths >= 2 AND due <= $2::float8
ORDER BY due LIMIT $3 {lock FOR UPDATE SKIP LOCKED};

-- name: claimed_rows
SELECT id, token - 1, event_id, event_type, version, data, timestamp, key, collection, ids, round, priority, tries,
       not_ready, able, deaths, lapses, batch, cursor, source, trace, errors, service
FROM ledger WHERE state = 'claimed' AND worker = $1;

-- name: claim_rows
UPDATE ledger SET state = 'claimed', token = token + 1, worker = $1, lease = $2, started = 0
WHERE id = ANY ($3::bigint[]);

-- name: adopt
UPDATE ledger SET ids = $1::json, round = $2, source = $3, generation = $4 WHERE id = $5;

-- name: rows
SELECT id, service, state, key, collection, ids, round, priority, due, tries, not_ready, able, deaths, lapses,
       started, token, lease, worker, batch, cursor, errors, source, generation, reason, settled_at, fingerprint
FROM ledger WHERE id = ANY ($1::bigint[]) {lock FOR UPDATE};

-- name: done_rows
WITH gone AS (
  DELETE FROM ledger WHERE id = ANY ($2::bigint[])
  RETURNING id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id, worker, source,
            collection, ids, data, reason)
INSERT INTO completed (settled_at, id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id,
                       worker, source, collection, ids, data, reason)
SELECT $1::float8, gone.* FROM gone;

-- The same for rows that name no documents, if they are still held under this token.
-- name: close_rows
WITH gone AS (
  DELETE FROM ledger WHERE id = ANY ($2::bigint[]) AND token = $3 AND state = 'claimed' AND collection IS NULL
  RETURNING id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id, worker, source,
            collection, ids, data, reason, generation),
kept AS (
  INSERT INTO completed (settled_at, id, timestamp, due, deaths, tries, not_ready, round, service, event_type,
                         event_id, worker, source, collection, ids, data, reason)
  SELECT $1::float8, id, timestamp, due, deaths, tries, not_ready, round, service, event_type, event_id, worker,
         source, collection, ids, data, reason FROM gone)
SELECT id, source, generation FROM gone;

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
SELECT :id::bigint, service, :state::text, event_id, event_type, version, data, timestamp, trace, :key::text,
       collection, :ids::text::json, round, priority, :due::float8, :tries::int, :not_ready::int, :able::float8,
       :deaths::int, :batch::int, :cursor::text, :errors::text, source, generation, :reason::text,
       :settled_at::float8, :fingerprint::text, :announced::float8,
       :announced::float8
FROM ledger WHERE id = :origin;

-- name: keep_raw
UPDATE ledger SET raw = $1 WHERE id = $2;

-- name: delete_rows
DELETE FROM ledger WHERE id = ANY ($1::bigint[]);

-- What is being settled just now needs no lease any more.
-- name: renew
UPDATE ledger SET lease = $1
WHERE id IN (SELECT id FROM ledger WHERE state = 'claimed' AND worker = $2 ORDER BY id FOR UPDATE SKIP LOCKED);

-- name: seen
UPDATE workers SET last_seen = $1 WHERE worker = $2;

-- name: claims_of :column
SELECT id FROM ledger WHERE state = 'claimed' AND worker = $1 {lock ORDER BY id FOR UPDATE};

-- name: lapsed :column
SELECT id FROM ledger WHERE state = 'claimed' AND lease <= $1::float8 {lock ORDER BY id FOR UPDATE SKIP LOCKED};

-- name: next_lapse :value
SELECT min(lease) FROM ledger WHERE state = 'claimed';

-- name: next_due :value
SELECT due FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths < 2 AND priority = $2::bigint
ORDER BY due, id LIMIT 1;

-- name: next_suspect :value
SELECT due FROM ledger WHERE service = $1 AND state = 'waiting' AND deaths >= 2 ORDER BY due LIMIT 1;

-- name: prune_old
DELETE FROM completed WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM completed WHERE settled_at < $1::float8 ORDER BY settled_at LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: prune_many
DELETE FROM completed WHERE ctid = ANY (ARRAY (
  SELECT ctid FROM completed
  WHERE settled_at <= (SELECT settled_at FROM completed ORDER BY settled_at DESC OFFSET $1::bigint LIMIT 1)
  ORDER BY settled_at LIMIT 10000 FOR UPDATE SKIP LOCKED));

-- name: prune_unrouted
DELETE FROM ledger WHERE id = ANY (ARRAY (
  SELECT id FROM ledger WHERE state = 'unrouted' AND due < $1::float8
  ORDER BY due LIMIT 5000 FOR UPDATE SKIP LOCKED));

-- name: under_way :value
SELECT count(*) FROM ledger WHERE state = 'claimed' AND service = ANY ($1::text[]);

-- name: in_hand :value
SELECT EXISTS (SELECT 1 FROM ledger WHERE state = 'claimed' AND service = ANY ($1::text[]))
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths < 2 AND service = ANY ($2::text[]) AND due <= $3::float8)
    OR EXISTS (SELECT 1 FROM ledger WHERE state = 'waiting' AND deaths >= 2 AND service = ANY ($2::text[]) AND due <= $3::float8);

-- name: enlist
INSERT INTO workers (worker, about, last_seen) VALUES ($1, $2, $3)
ON CONFLICT (worker) DO UPDATE SET about = excluded.about, last_seen = excluded.last_seen;

-- name: retire
DELETE FROM workers WHERE worker = $1;

-- name: workers
SELECT worker, about, last_seen FROM workers WHERE last_seen >= $1::float8;

-- name: breakers :column
SELECT breaker FROM breakers;

-- name: save_breaker
INSERT INTO breakers (dependency, breaker) VALUES ($1, $2)
ON CONFLICT (dependency) DO UPDATE SET breaker = excluded.breaker;

-- name: drop_breaker
DELETE FROM breakers WHERE dependency = $1;

-- name: log_opening
INSERT INTO openings (dependency, opened_at, reason, remedy) VALUES ($1, $2, $3, $4);

-- name: log_closing
UPDATE openings SET closed_at = $1 WHERE dependency = $2 AND closed_at IS NULL;

-- name: openings
SELECT dependency, opened_at, closed_at, reason, remedy
FROM openings WHERE $1::text IS NULL OR dependency = $1 ORDER BY opened_at;

-- name: dead_letters
SELECT id, service, event_id, event_type, version, data::json, timestamp, key, collection, ids, round,
       tries + not_ready, errors, deaths, reason, encode(raw, 'hex'), raw IS NOT NULL, settled_at
FROM ledger
WHERE state = 'dead' AND ($1::text IS NULL OR service = $1) AND id > $2 ORDER BY id LIMIT $3;

-- name: bump_generation
INSERT INTO sources AS known (source, generation) VALUES ($1, 1)
ON CONFLICT (source) DO UPDATE SET generation = known.generation + 1;

-- name: documents_of_source
SELECT collection, id FROM documents WHERE source = $1 LIMIT 1000;

-- name: rows_of_source :column
SELECT id FROM ledger WHERE source = $1 LIMIT 1000;

-- name: forget_completed
DELETE FROM completed WHERE source = $1;

-- name: counts
SELECT service, state, count(*) FROM ledger GROUP BY service, state
UNION ALL
SELECT service, 'done', count(*) FROM completed GROUP BY service;

-- name: document_counts
SELECT collection, status, sum(n)::bigint FROM tallies
WHERE $1::text IS NULL OR source = $1 GROUP BY collection, status HAVING sum(n) > 0;

-- name: tally
INSERT INTO tallies AS known (source, collection, status, shard, n)
SELECT v.source, v.collection, v.status, pg_backend_pid() % 64, v.n
FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) AS v (source, collection, status, n)
ORDER BY 1, 2, 3
ON CONFLICT (source, collection, status, shard) DO UPDATE SET n = known.n + excluded.n;

-- name: forget_tallies
DELETE FROM tallies WHERE source = $1 AND n = 0;

-- name: sources :column
SELECT DISTINCT source
FROM (SELECT source FROM tallies WHERE source <> ''
      GROUP BY source, collection, status HAVING sum(n) > 0) AS found ORDER BY source;

-- name: ids_like
SELECT d.collection, d.id
FROM (SELECT DISTINCT collection FROM tallies) c
  CROSS JOIN LATERAL (SELECT collection, id FROM documents
                      WHERE collection = c.collection AND id >= $1 AND id < $2 ORDER BY id LIMIT $3::bigint) d
ORDER BY d.collection, d.id LIMIT $3::bigint;

-- name: cursors :column
SELECT cursor::json FROM ledger WHERE state = 'claimed' AND service = $1 AND cursor IS NOT NULL;

-- name: statuses
SELECT d.id, d.status
FROM unnest($2::text[]) AS wanted (id) CROSS JOIN LATERAL (
  SELECT id, status FROM documents WHERE collection = $1 AND id = wanted.id OFFSET 0) AS d;

-- name: listed
SELECT id, status, attempt_count, last_attempt_time, created_at, updated_at, last_error, attempts, retry_at, priority,
       revision, round, "row", dead_letter, source, parent, failed_batch
FROM documents
WHERE collection = $1 AND ($2::text IS NULL OR status = $2) AND ($3::text IS NULL OR source = $3) AND id > $4
ORDER BY id LIMIT $5;

-- name: set_aside
INSERT INTO failed_batches (id, service, source, errors, retry_after, created_at) VALUES ($1, $2, $3, $4, $5, $6)
ON CONFLICT (id) DO UPDATE SET errors = excluded.errors;

-- name: failed_batch_errors :value
SELECT errors FROM failed_batches WHERE id = $1;

-- name: failed_batches
SELECT id, service, source, errors, retry_count, retry_after, created_at,
       (SELECT coalesce(json_agg(json_build_array(collection, d.id)), '[]')
        FROM documents d WHERE d.failed_batch = b.id)
FROM failed_batches b WHERE $1::text IS NULL OR source = $1 ORDER BY b.id;

-- name: drop_empty_batches
DELETE FROM failed_batches
WHERE id = ANY ($1::text[]) AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.failed_batch = failed_batches.id)
RETURNING id, retry_count, created_at;
