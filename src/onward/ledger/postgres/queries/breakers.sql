-- Breakers of dependencies, and when they were open.

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

-- name: prune_openings
DELETE FROM openings
WHERE dependency = $1 AND opened_at <= (SELECT opened_at FROM openings WHERE dependency = $1
                                        ORDER BY opened_at DESC LIMIT 1 OFFSET $2::bigint);

-- name: openings
SELECT dependency, opened_at, closed_at, reason, remedy
FROM openings WHERE $1::text IS NULL OR dependency = $1 ORDER BY opened_at;
