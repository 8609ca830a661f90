-- Operations: runs of actions, with their progress and result. A running one whose lease has lapsed is interrupted.

-- name: begin_operation
INSERT INTO operations (id, title, action, parameters, who, via, back, began_at, lease, status)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, 'running');

-- name: prune_operations
DELETE FROM operations WHERE began_at < ?;

-- name: continue_operation
UPDATE operations SET status = 'running', run = run + 1, lease = ?2, ended_at = NULL, problem = '', stopping = 0
WHERE id = ?1 AND action <> ''
  AND (status IN ('interrupted', 'stopped', 'failed') OR (status = 'running' AND lease < ?3));

-- name: save_operation
UPDATE operations SET done = ?3, total = ?4, text = ?5, lease = ?6
WHERE id = ?1 AND run = ?2 AND status = 'running';

-- name: operation_stopping
SELECT stopping FROM operations WHERE id = ?;

-- name: checkpoint_operation
UPDATE operations SET cursor = ?3 WHERE id = ?1 AND run = ?2 AND status = 'running';

-- name: end_operation
UPDATE operations SET status = ?3, done = ?4, total = ?5, text = ?6, problem = ?7, ended_at = ?8
WHERE id = ?1 AND run = ?2 AND status = 'running';

-- name: stop_operation
UPDATE operations SET stopping = 1 WHERE id = ?1 AND status = 'running' AND lease >= ?2;

-- name: operation
SELECT json_array(id, title, action, json(parameters), who, via, back, began_at, ended_at,
                  iif(status = 'running' AND lease < ?2, 'interrupted', status), done, total, text, problem,
                  json(cursor), run, stopping)
FROM operations WHERE id = ?1;

-- name: operations
SELECT json_group_array(json_array(id, title, action, json(parameters), who, via, back, began_at, ended_at,
                                   shown, done, total, text, problem, json(cursor), run, stopping))
FROM (SELECT *, iif(status = 'running' AND lease < ?1, 'interrupted', status) AS shown FROM operations
      WHERE (?2 IS NULL OR iif(status = 'running' AND lease < ?1, 'interrupted', status) = ?2)
        AND (?3 IS NULL OR who = ?3)
        AND (?4 IS NULL OR (began_at, id) < (SELECT began_at, id FROM operations WHERE id = ?4))
      ORDER BY began_at DESC, id DESC LIMIT ?5);
