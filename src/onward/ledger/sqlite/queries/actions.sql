-- The log of changes that people made.

-- name: log_action
INSERT INTO actions (at, who, via, action, about, touched) VALUES (?, ?, ?, ?, ?, ?);

-- name: prune_actions
DELETE FROM actions WHERE id <= (SELECT max(id) FROM actions) - ?;

-- name: actions
SELECT json_group_array(json_array(id, at, who, via, action, json(about), touched))
FROM (SELECT * FROM actions
      WHERE ?1 IS NULL OR (at, id) < (SELECT at, id FROM actions WHERE id = ?1)
      ORDER BY at DESC, id DESC LIMIT ?2);
