-- Breakers of dependencies, and when they were open.

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

-- name: prune_openings
DELETE FROM openings
WHERE dependency = ?1 AND opened_at <= (SELECT opened_at FROM openings WHERE dependency = ?1
                                        ORDER BY opened_at DESC LIMIT 1 OFFSET ?2);

-- name: openings
SELECT json_group_array(json_array(dependency, opened_at, closed_at, reason, remedy))
FROM (SELECT * FROM openings WHERE ?1 IS NULL OR dependency = ?1 ORDER BY opened_at);
