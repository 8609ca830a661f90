-- Operations: runs of actions, with their progress and result. A running one whose lease has lapsed is interrupted.

-- name: begin_operation
INSERT INTO operations (id, title, action, parameters, who, via, back, began_at, lease, status)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, 'running');

-- name: prune_operations
DELETE FROM operations WHERE began_at < $1::float8;

-- name: continue_operation
UPDATE operations SET status = 'running', run = run + 1, lease = $2, ended_at = NULL, problem = '', stopping = 0
WHERE id = $1 AND action <> ''
  AND (status IN ('interrupted', 'stopped', 'failed') OR (status = 'running' AND lease < $3::float8));

-- name: save_operation
UPDATE operations SET done = $3, total = $4, text = $5, lease = $6 WHERE id = $1 AND run = $2 AND status = 'running';

-- name: operation_stopping :value
SELECT stopping FROM operations WHERE id = $1;

-- name: checkpoint_operation
UPDATE operations SET cursor = $3 WHERE id = $1 AND run = $2 AND status = 'running';

-- name: end_operation
UPDATE operations SET status = $3, done = $4, total = $5, text = $6, problem = $7, ended_at = $8
WHERE id = $1 AND run = $2 AND status = 'running';

-- name: stop_operation
UPDATE operations SET stopping = 1 WHERE id = $1 AND status = 'running' AND lease >= $2::float8;

-- name: operation :row
SELECT id, title, action, parameters, who, via, back, began_at, ended_at,
       CASE WHEN status = 'running' AND lease < $2::float8 THEN 'interrupted' ELSE status END, done, total, text,
       problem, cursor, run, stopping
FROM operations WHERE id = $1;

-- name: operations
SELECT id, title, action, parameters, who, via, back, began_at, ended_at,
       CASE WHEN status = 'running' AND lease < $1::float8 THEN 'interrupted' ELSE status END, done, total, text,
       problem, cursor, run, stopping
FROM operations
WHERE ($2::text IS NULL
       OR CASE WHEN status = 'running' AND lease < $1::float8 THEN 'interrupted' ELSE status END = $2)
  AND ($3::text IS NULL OR who = $3)
  AND ($4::text IS NULL OR (began_at, id) < (SELECT began_at, id FROM operations WHERE id = $4))
ORDER BY began_at DESC, id DESC LIMIT $5;
