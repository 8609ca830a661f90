-- Failures, counted by fingerprint.

-- name: group_counts
SELECT json_group_array(json_array(fingerprint, json(kinds), json(versions), json(dependencies),
                                   json(life)))
FROM failure_groups WHERE fingerprint IN (SELECT value FROM json_each(?));

-- name: count_failures
INSERT INTO failure_groups (fingerprint, service, collection, error_type, message, place, traceback, first_seen,
                            last_seen, failures, documents, kinds, versions, dependencies, context,
                            succeeded_before, succeeded_at_last, library)
VALUES {values}
ON CONFLICT (fingerprint) DO UPDATE SET
  -- A merged group has several types of errors. Failures that are moved to it may be older than its last one.
  error_type = iif(excluded.last_seen >= last_seen, excluded.error_type, error_type),
  message = iif(excluded.last_seen >= last_seen, excluded.message, message),
  place = iif(excluded.last_seen >= last_seen, excluded.place, place),
  traceback = CASE excluded.traceback WHEN '' THEN traceback ELSE excluded.traceback END,
  first_seen = min(first_seen, excluded.first_seen),
  last_seen = max(last_seen, excluded.last_seen),
  failures = failures + excluded.failures,
  documents = documents + excluded.documents,
  kinds = excluded.kinds,
  versions = excluded.versions,
  dependencies = excluded.dependencies,
  context = CASE excluded.context WHEN '{}' THEN context ELSE excluded.context END,
  succeeded_before = CASE WHEN excluded.first_seen < first_seen
                     THEN excluded.succeeded_before ELSE succeeded_before END,
  succeeded_at_last = CASE WHEN excluded.last_seen >= last_seen
                      THEN excluded.succeeded_at_last ELSE succeeded_at_last END,
  library = excluded.library;

-- name: uncount_documents
-- A document that is gone does not count any more.
UPDATE failure_groups SET documents = max(0, documents - (SELECT value FROM json_each(?1) WHERE key = fingerprint))
WHERE fingerprint IN (SELECT key FROM json_each(?1));

-- name: prune_groups
DELETE FROM failure_groups WHERE fingerprint IN
  (SELECT fingerprint FROM failure_groups ORDER BY last_seen DESC LIMIT -1 OFFSET ?);

-- name: failure_groups
-- Discarded documents are not counted as affected.
SELECT json_group_array(json_array(
         fingerprint, service, collection, error_type, message, place, traceback, first_seen, last_seen,
         failures, documents, json(context), json(kinds), json(versions), json(dependencies), library,
         json(succeeded_before), json(succeeded_at_last),
         (SELECT count(*) FROM documents INDEXED BY documents_fingerprint
          WHERE documents.fingerprint = g.fingerprint AND status <> 'discarded'),
         (SELECT count(*) FROM ledger INDEXED BY ledger_dead_group
          WHERE ledger.fingerprint = g.fingerprint AND state = 'dead'),
         json(life)))
FROM (SELECT * FROM failure_groups INDEXED BY failure_groups_seen
      WHERE last_seen >= ?2 AND (?1 IS NULL OR service = ?1) ORDER BY last_seen DESC LIMIT ?3) g;

-- name: failure_group
SELECT json_array(
         fingerprint, service, collection, error_type, message, place, traceback, first_seen, last_seen,
         failures, documents, json(context), json(kinds), json(versions), json(dependencies), library,
         json(succeeded_before), json(succeeded_at_last),
         (SELECT count(*) FROM documents INDEXED BY documents_fingerprint
          WHERE documents.fingerprint = g.fingerprint AND status <> 'discarded'),
         (SELECT count(*) FROM ledger INDEXED BY ledger_dead_group
          WHERE ledger.fingerprint = g.fingerprint AND state = 'dead'),
         json(life))
FROM failure_groups g WHERE fingerprint = ?;

-- name: group_statuses
SELECT json_group_array(json_array(status, n)) FROM
  (SELECT status, count(*) AS n FROM documents INDEXED BY documents_fingerprint WHERE fingerprint = ? GROUP BY status);

-- name: forget_unused_groups
-- Deletes those of the groups that no document and no dead letter belongs to.
DELETE FROM failure_groups
WHERE fingerprint IN (SELECT value FROM json_each(?))
  AND NOT EXISTS (SELECT 1 FROM documents d INDEXED BY documents_fingerprint
                  WHERE d.fingerprint = failure_groups.fingerprint)
  AND NOT EXISTS (SELECT 1 FROM ledger l INDEXED BY ledger_dead_group
                  WHERE l.fingerprint = failure_groups.fingerprint AND l.state = 'dead');

-- name: forget_group
DELETE FROM failure_groups WHERE fingerprint = ?;

-- name: uncount_failures
-- Takes failures out of a group that count with another one from now on.
UPDATE failure_groups SET failures = max(0, failures - ?2), documents = max(0, documents - ?3),
                          kinds = ?4, versions = ?5, dependencies = ?6
WHERE fingerprint = ?1;

-- name: describe_group
UPDATE failure_groups SET error_type = ?2, message = ?3, place = ?4, traceback = ?5 WHERE fingerprint = ?1;

-- name: group_life
SELECT json(life) FROM failure_groups WHERE fingerprint = ?;

-- name: save_group_life
UPDATE failure_groups SET life = ?2 WHERE fingerprint = ?1;

-- name: group_rules
SELECT json_group_array(json_array(id, grouped, target, split_by, value, at, who, state))
FROM (SELECT * FROM group_rules ORDER BY id);

-- name: add_group_rule
INSERT INTO group_rules (grouped, target, split_by, value, at, who, state) VALUES (?, ?, ?, ?, ?, ?, ?);

-- name: set_rule_state
UPDATE group_rules SET state = ?2, at = ?3 WHERE id = ?1;

-- name: drop_group_rule
DELETE FROM group_rules WHERE id = ?;
