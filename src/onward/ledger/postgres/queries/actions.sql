-- The log of changes that people made.

-- name: log_action
INSERT INTO actions (at, who, via, action, about, touched) VALUES ($1, $2, $3, $4, $5, $6);

-- name: prune_actions
DELETE FROM actions WHERE id <= (SELECT max(id) FROM actions) - $1::bigint;

-- name: actions
SELECT id, at, who, via, action, about, touched FROM actions
WHERE $1::bigint IS NULL OR (at, id) < (SELECT at, id FROM actions WHERE id = $1)
ORDER BY at DESC, id DESC LIMIT $2;
