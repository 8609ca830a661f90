-- The retry job, failed batches, totals. An unfinished document without a live row is in documents_look.

-- name: lead
INSERT INTO leaders (role, holder, until) VALUES (?1, ?2, ?3)
ON CONFLICT (role) DO UPDATE SET holder = excluded.holder, until = excluded.until
-- One that would lead for longer than anybody may has a clock that was set back since.
WHERE leaders.holder = excluded.holder OR leaders.until <= ?4 OR leaders.until > ?3;

-- name: resign
DELETE FROM leaders WHERE role = ? AND holder = ?;

-- name: to_look_at
SELECT json_group_array(json_array(collection, id))
FROM (SELECT collection, id
      FROM (SELECT collection, id, priority, created_at, doc FROM documents INDEXED BY documents_look
            WHERE look_at <= ?1
              AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
              AND row IS NULL AND failed_batch IS NULL
              AND (?3 IS NULL OR collection IN (SELECT value FROM json_each(?3)))
            UNION
            SELECT collection, id, priority, created_at, doc FROM documents INDEXED BY documents_scheduled
            WHERE retry_at IS NOT NULL AND retry_at <= ?1 AND row IS NULL AND look_at <= ?1
              AND (?3 IS NULL OR collection IN (SELECT value FROM json_each(?3))))
      ORDER BY priority DESC, created_at, doc LIMIT ?2);

-- name: next_look
SELECT min(at)
FROM (SELECT * FROM (SELECT look_at AS at FROM documents INDEXED BY documents_look
                     WHERE status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
                       AND row IS NULL AND failed_batch IS NULL
                       AND (?1 IS NULL OR collection IN (SELECT value FROM json_each(?1)))
                     ORDER BY look_at LIMIT 1)
      UNION ALL
      SELECT min(max(retry_at, look_at)) FROM documents INDEXED BY documents_scheduled
      WHERE retry_at IS NOT NULL AND row IS NULL
        AND (?1 IS NULL OR collection IN (SELECT value FROM json_each(?1))));

-- name: states_by_id
SELECT json_group_array(json_array(id, status, attempt_count, last_attempt_time, created_at, updated_at,
                                   iif(typeof(last_error) = 'text', last_error, NULL),
                                   iif(typeof(attempts) = 'text', attempts, NULL), retry_at, priority, revision,
                                   round, row, dead_letter, source, parent, failed_batch))
FROM documents WHERE collection = ? AND id IN (SELECT value FROM json_each(?));

-- name: look_later
UPDATE documents SET look_at = v.column3
FROM (VALUES {values}) AS v WHERE documents.collection = v.column1 AND documents.id = v.column2;

-- name: rows_gone
SELECT json_array(
  (SELECT max(doc) FROM (SELECT doc FROM documents WHERE doc > ?1 ORDER BY doc LIMIT ?2)),
  (SELECT json_group_array(json_array(collection, id))
   FROM (SELECT collection, id, status, row FROM documents WHERE doc > ?1 ORDER BY doc LIMIT ?2) d
   WHERE row IS NOT NULL
     AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = d.row AND l.state IN ('waiting', 'claimed'))));

-- name: looked_at_later
SELECT json_group_array(json_array(collection, n))
FROM (SELECT collection, count(*) AS n FROM documents INDEXED BY documents_look
      WHERE look_at > ? AND attempt_count > 0
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND row IS NULL AND failed_batch IS NULL
      GROUP BY collection);

-- name: stuck
SELECT json_group_array(json_array(collection, n))
FROM (SELECT collection, count(*) AS n FROM documents INDEXED BY documents_look
      WHERE look_at >= 0
        AND status NOT IN ('processed', 'failed', 'failed_max_retries', 'discarded')
        AND row IS NULL AND failed_batch IS NULL
        AND (coalesce(last_attempt_time, created_at, 0) < ?1
             OR attempt_count >= coalesce((SELECT value FROM json_each(?2) WHERE key = collection), ?3))
      GROUP BY collection);

-- name: due_batches
SELECT json_group_array(id) FROM (SELECT id FROM failed_batches WHERE retry_after <= ? ORDER BY retry_after);

-- name: next_batches
-- Not as JSON, which rounds times: who waits until then must not wake up too early.
SELECT service, min(retry_after) FROM failed_batches GROUP BY service;

-- name: failed_batch
SELECT json_array(
         id, service, source, json(errors), retry_count, retry_after, created_at,
         json((SELECT json_group_array(json_array(collection, d.id)) FROM documents d WHERE d.failed_batch = b.id)))
FROM failed_batches b WHERE id = ?;

-- name: idle_items
SELECT json_group_array(json_array(collection, id))
FROM (SELECT d.collection, d.id FROM documents d JOIN failed_batches b ON b.id = d.failed_batch
      WHERE d.failed_batch = ? AND d.row IS NULL
        AND (d.last_attempt_time IS NULL OR d.last_attempt_time <= b.retry_after)
      ORDER BY d.doc LIMIT ?);

-- name: claim_batch
UPDATE failed_batches SET retry_after = ?1, retry_count = retry_count + 1
WHERE id = ?2 AND retry_count = ?3 AND retry_after <= ?4;

-- name: hurry_batch
UPDATE failed_batches SET retry_after = ? WHERE id = ?;

-- name: count_total
INSERT INTO counters (name, label, value) VALUES (?, ?, ?)
ON CONFLICT (name, label) DO UPDATE SET value = value + excluded.value;

-- name: set_gauge
INSERT INTO counters (name, label, value) VALUES (?, ?, ?)
ON CONFLICT (name, label) DO UPDATE SET value = excluded.value;

-- name: totals
SELECT json_group_array(json_array(name, label, value)) FROM counters;
