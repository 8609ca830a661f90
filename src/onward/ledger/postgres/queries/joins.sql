-- Joins: events that wait until all of their documents are final.

-- name: open_join :row
SELECT id, source, generation, allow_failed, kept FROM joins WHERE key = $1 AND closed = 0 {lock FOR UPDATE};

-- name: lock_joins
SELECT id FROM joins
WHERE id = ANY (ARRAY (
  SELECT unnest($1::bigint[]) UNION SELECT id FROM joins WHERE key = ANY ($2::text[]) AND closed = 0))
ORDER BY id {lock FOR UPDATE};

-- name: insert_join
INSERT INTO joins (key, allow_failed, created_at, event_type, event_id, version, data, trace, priority, notice,
                   routing_key, joined_field, source, generation)
VALUES ($1::text, $2::int, $3::float8, $4::text, $5::text, $6::bigint, $7::text, $8::text, $9::int, $10::int,
        $11::text, $12::text, $13::text, $14::int)
RETURNING id;

-- name: hold_join
UPDATE joins SET held_until = $2::float8, kept = $3::int WHERE id = $1::bigint;

-- name: keep_join
UPDATE joins SET kept = 1 WHERE id = $1::bigint;

-- name: change_join
UPDATE joins SET
  remaining = remaining + $2::int, processed = processed + $3::int, failed = failed + $4::int,
  removed = removed + $5::int
WHERE id = $1::bigint;

-- name: known_members
SELECT m.collection, m.id, m.holder, m.outcome
FROM json_array_elements($2::json) AS w (pair) CROSS JOIN LATERAL (
  SELECT collection, id, holder, outcome FROM join_members
  WHERE join_id = $1::bigint AND collection = w.pair ->> 0 AND id = w.pair ->> 1 OFFSET 0) AS m;

-- name: insert_members
INSERT INTO join_members (join_id, collection, id, holder, outcome)
SELECT * FROM unnest($1::bigint[], $2::text[], $3::text[], $4::int[], $5::int[])
ON CONFLICT (join_id, collection, id) DO UPDATE SET outcome = excluded.outcome;

-- name: mark_joined
UPDATE documents SET joined = 1 WHERE doc = ANY ($1::bigint[]);

-- name: count_members
-- Each of `$1` is a collection, an id, an outcome, and whether it counts where no failed document is allowed.
-- A document is counted by whoever has locked it, or does not exist: then its row here is the lock.
UPDATE join_members AS m SET outcome = w.outcome
FROM (
  SELECT found.join_id, found.collection, found.id, (given.member ->> 2)::int AS outcome
  FROM json_array_elements($1::json) AS given (member) CROSS JOIN LATERAL (
    SELECT o.join_id, o.collection, o.id FROM join_members o
    WHERE o.collection = given.member ->> 0 AND o.id = given.member ->> 1 AND o.outcome = 0 OFFSET 0) AS found
  CROSS JOIN LATERAL (
    SELECT j.allow_failed FROM joins j WHERE j.id = found.join_id OFFSET 0) AS j
  WHERE j.allow_failed = 1 OR (given.member ->> 3)::int = 1) AS w
WHERE m.join_id = w.join_id AND m.collection = w.collection AND m.id = w.id AND m.outcome = 0
RETURNING m.join_id, m.holder, m.outcome;

-- name: complete_joins
SELECT id, processed, failed, removed, event_type, event_id, version, data, trace, priority, notice, routing_key,
       joined_field, source, generation
FROM joins
WHERE id = ANY ($1::bigint[]) AND remaining <= 0 AND closed = 0 AND held_until IS NULL ORDER BY id;

-- name: failed_members
SELECT collection, id FROM join_members WHERE join_id = $1::bigint AND outcome = 2 ORDER BY collection, id LIMIT $2;

-- name: close_join
UPDATE joins SET closed = 1 WHERE id = $1::bigint;

-- name: delete_join
DELETE FROM joins WHERE id = $1::bigint;

-- name: delete_members
DELETE FROM join_members
WHERE join_id = $1::bigint
  AND (collection, id) IN (SELECT collection, id FROM join_members WHERE join_id = $1::bigint LIMIT $2::bigint);

-- name: left_joins
-- Joins that were published, or whose caller has ended before it had added all members.
SELECT id, closed, kept, event_type FROM joins
WHERE (closed = 1 OR held_until IS NOT NULL) AND (closed = 1 OR held_until < $1::float8) ORDER BY id LIMIT 100
{lock FOR UPDATE SKIP LOCKED};

-- name: member_page
-- Members in their order, each with whether it has ended and is not counted.
SELECT m.join_id, m.collection, m.id,
       m.outcome = 0 AND j.created_at < $4::float8 AND (
         d.doc IS NULL OR d.joined = 0 OR d.status IN ('processed', 'discarded')
         OR (j.allow_failed = 1 AND d.status IN ('failed', 'failed_max_retries')))
FROM (SELECT join_id, collection, id, outcome FROM join_members
      WHERE (join_id, collection, id) > ($1::bigint, $2, $3) ORDER BY join_id, collection, id LIMIT $5::bigint) AS m
  CROSS JOIN LATERAL (SELECT created_at, allow_failed FROM joins WHERE id = m.join_id OFFSET 0) AS j
  LEFT JOIN LATERAL (
    SELECT doc, joined, status FROM documents WHERE collection = m.collection AND id = m.id OFFSET 0) AS d ON true
ORDER BY m.join_id, m.collection, m.id;

-- name: open_joins
SELECT id, event_type, event_id, remaining, processed, failed, removed, allow_failed, created_at, source
FROM joins WHERE closed = 0 AND id > $1::bigint ORDER BY id LIMIT $2::bigint;

-- name: open_members
SELECT collection, id FROM join_members
WHERE join_id = $1::bigint AND outcome = 0 ORDER BY collection, id LIMIT $2::bigint;

-- name: joins_of_document
SELECT j.id, j.event_type, j.event_id, j.remaining, j.processed, j.failed, j.removed, j.allow_failed, j.created_at,
       j.source
FROM join_members m JOIN joins j ON j.id = m.join_id
WHERE m.collection = $1 AND m.id = $2 AND m.outcome = 0
ORDER BY j.id;

-- name: join_count :value
SELECT count(*) FROM joins WHERE closed = 0;
