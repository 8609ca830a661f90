-- Failures, counted by fingerprint.

-- name: group_counts
SELECT fingerprint, kinds, versions, dependencies, life FROM failure_groups WHERE fingerprint = ANY ($1::text[]);

-- name: count_failures
INSERT INTO failure_groups AS known (fingerprint, service, collection, error_type, message, place, traceback,
                                     first_seen, last_seen, failures, documents, kinds, versions, dependencies,
                                     context, succeeded_before, succeeded_at_last, library)
SELECT * FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::text[], $6::text[], $7::text[],
                     $8::float8[], $9::float8[], $10::bigint[], $11::bigint[], $12::json[], $13::json[], $14::json[],
                     $15::json[], $16::json[], $17::json[], $18::text[])
ON CONFLICT (fingerprint) DO UPDATE SET
  -- A merged group has several types of errors. Failures that are moved to it may be older than its last one.
  error_type = CASE WHEN excluded.last_seen >= known.last_seen THEN excluded.error_type ELSE known.error_type END,
  message = CASE WHEN excluded.last_seen >= known.last_seen THEN excluded.message ELSE known.message END,
  place = CASE WHEN excluded.last_seen >= known.last_seen THEN excluded.place ELSE known.place END,
  traceback = CASE excluded.traceback WHEN '' THEN known.traceback ELSE excluded.traceback END,
  first_seen = least(known.first_seen, excluded.first_seen),
  last_seen = greatest(known.last_seen, excluded.last_seen),
  failures = known.failures + excluded.failures,
  documents = known.documents + excluded.documents,
  kinds = excluded.kinds,
  versions = excluded.versions,
  dependencies = excluded.dependencies,
  context = CASE excluded.context::text WHEN '{}' THEN known.context ELSE excluded.context END,
  succeeded_before = CASE WHEN excluded.first_seen < known.first_seen
                     THEN excluded.succeeded_before ELSE known.succeeded_before END,
  succeeded_at_last = CASE WHEN excluded.last_seen >= known.last_seen
                      THEN excluded.succeeded_at_last ELSE known.succeeded_at_last END,
  library = excluded.library;

-- name: uncount_documents
-- A document that is gone does not count any more.
UPDATE failure_groups g SET documents = greatest(0, g.documents - gone.n::bigint)
FROM json_each_text($1::json) AS gone (fingerprint, n) WHERE g.fingerprint = gone.fingerprint;

-- name: prune_groups
DELETE FROM failure_groups WHERE fingerprint = ANY (ARRAY (
  SELECT fingerprint FROM failure_groups
  WHERE last_seen <= (SELECT last_seen FROM failure_groups ORDER BY last_seen DESC OFFSET $1::bigint LIMIT 1)
  ORDER BY last_seen LIMIT 1000 FOR UPDATE SKIP LOCKED));

-- name: failure_groups
-- Discarded documents are not counted as affected.
SELECT fingerprint, service, collection, error_type, message, place, traceback, first_seen, last_seen,
       failures, documents, context, kinds, versions, dependencies, library, succeeded_before, succeeded_at_last,
       (SELECT count(*) FROM documents d WHERE d.fingerprint = g.fingerprint AND d.status <> 'discarded'),
       (SELECT count(*) FROM ledger l WHERE l.fingerprint = g.fingerprint AND l.state = 'dead'), life
FROM (SELECT * FROM failure_groups
      WHERE last_seen >= $2::float8 AND ($1::text IS NULL OR service = $1) ORDER BY last_seen DESC LIMIT $3) g
ORDER BY last_seen DESC;

-- name: failure_group :row
SELECT fingerprint, service, collection, error_type, message, place, traceback, first_seen, last_seen,
       failures, documents, context, kinds, versions, dependencies, library, succeeded_before, succeeded_at_last,
       (SELECT count(*) FROM documents d WHERE d.fingerprint = g.fingerprint AND d.status <> 'discarded'),
       (SELECT count(*) FROM ledger l WHERE l.fingerprint = g.fingerprint AND l.state = 'dead'), life
FROM failure_groups g WHERE fingerprint = $1;

-- name: group_statuses
SELECT status, count(*) FROM documents WHERE fingerprint = $1 GROUP BY status;

-- name: forget_unused_groups
-- Deletes those of the groups that no document and no dead letter belongs to.
DELETE FROM failure_groups
WHERE fingerprint = ANY ($1::text[])
  AND NOT EXISTS (SELECT 1 FROM documents d WHERE d.fingerprint = failure_groups.fingerprint)
  AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.fingerprint = failure_groups.fingerprint AND l.state = 'dead');

-- name: forget_group
DELETE FROM failure_groups WHERE fingerprint = $1;

-- name: uncount_failures
-- Takes failures out of a group that count with another one from now on.
UPDATE failure_groups SET failures = greatest(0, failures - $2::bigint),
                          documents = greatest(0, documents - $3::bigint),
                          kinds = $4::json, versions = $5::json, dependencies = $6::json
WHERE fingerprint = $1;

-- name: describe_group
UPDATE failure_groups SET error_type = $2, message = $3, place = $4, traceback = $5 WHERE fingerprint = $1;

-- name: group_life :value
SELECT life FROM failure_groups WHERE fingerprint = $1 {lock FOR UPDATE};

-- name: save_group_life
UPDATE failure_groups SET life = $2::json WHERE fingerprint = $1;

-- name: group_rules
SELECT id, grouped, target, split_by, value, at, who, state FROM group_rules ORDER BY id;

-- name: add_group_rule
INSERT INTO group_rules (grouped, target, split_by, value, at, who, state) VALUES ($1, $2, $3, $4, $5, $6, $7);

-- name: set_rule_state
UPDATE group_rules SET state = $2, at = $3 WHERE id = $1;

-- name: drop_group_rule
DELETE FROM group_rules WHERE id = $1;
