-- The keys by which documents are found.

-- name: insert_keys
INSERT OR IGNORE INTO keys (doc, name, value) VALUES {values};

-- name: delete_keys
DELETE FROM keys WHERE doc IN (SELECT value FROM json_each(?));

-- name: found
SELECT json_group_array(json_array(k.value, d.id, d.status, d.revision, d.failed_batch IS NOT NULL))
FROM keys k JOIN documents d ON d.doc = k.doc
WHERE k.name = ? AND k.value IN (SELECT value FROM json_each(?)) AND d.collection = ?;

-- name: keyed_ids
SELECT d.id FROM keys k JOIN documents d ON d.doc = k.doc
WHERE k.name = ? AND k.value IN (SELECT value FROM json_each(?)) AND d.collection = ?;

-- name: found_page
SELECT json_group_array(json_array(doc, id, status, revision, set_aside, beside))
FROM (SELECT k.doc, d.id, d.status, d.revision, d.failed_batch IS NOT NULL AS set_aside,
             (SELECT o.value FROM keys o WHERE o.doc = k.doc AND o.name = ?3) AS beside
      FROM keys k JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value = (SELECT value FROM json_each(?2)) AND d.collection = ?4 AND k.doc > ?5
      ORDER BY k.doc LIMIT ?6);

-- name: value_counts
SELECT json_group_array(json_array(value, status, n))
FROM (SELECT k.value, d.status, count(*) AS n FROM keys k JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?3
      GROUP BY k.value, d.status);

-- name: highest_beside
SELECT json_group_array(json_array(value, highest))
FROM (SELECT k.value, max(o.value) AS highest
      FROM keys k JOIN keys o ON o.doc = k.doc AND o.name = ?3 JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?4 GROUP BY k.value);

-- name: ordered_ids
SELECT json_group_array(id)
FROM (SELECT d.id FROM keys k JOIN documents d ON d.doc = k.doc
      LEFT JOIN keys o ON o.doc = k.doc AND o.name = ?3
      WHERE k.name = ?1 AND k.value = (SELECT value FROM json_each(?2)) AND d.collection = ?4
      ORDER BY coalesce(o.value, 0), k.doc LIMIT ?6 OFFSET ?5);

-- name: ids_before
SELECT count(*) FROM keys k JOIN documents d ON d.doc = k.doc
LEFT JOIN keys o ON o.doc = k.doc AND o.name = ?3
WHERE k.name = ?1 AND k.value = (SELECT value FROM json_each(?2)) AND d.collection = ?4
  AND (coalesce(o.value, 0), k.doc) < (SELECT coalesce(mo.value, 0), m.doc FROM documents m
                                       LEFT JOIN keys mo ON mo.doc = m.doc AND mo.name = ?3
                                       WHERE m.collection = ?4 AND m.id = ?5);

-- name: related
SELECT json_group_array(json_array(value, other))
FROM (SELECT DISTINCT k.value, o.value AS other
      FROM keys k JOIN keys o ON o.doc = k.doc AND o.name = ?3 JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?4);

-- name: counts_beside
SELECT json_group_array(json_array(value, other, n))
FROM (SELECT k.value, o.value AS other, count(*) AS n
      FROM keys k JOIN keys o ON o.doc = k.doc AND o.name = ?3 JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?4
      GROUP BY k.value, o.value);

-- name: unfinished
SELECT json_group_array(value)
FROM (SELECT DISTINCT k.value FROM keys k JOIN documents d ON d.doc = k.doc
      WHERE k.name = ?1 AND k.value IN (SELECT value FROM json_each(?2)) AND d.collection = ?3
        AND ((d.status = 'pending' AND d.failed_batch IS NULL) OR EXISTS (
              SELECT 1 FROM documents c
              WHERE c.parent = ?3 || '/' || d.id AND +c.collection = ?4
                AND c.status = 'pending' AND c.failed_batch IS NULL)));

-- name: key_values
SELECT json_group_array(value)
FROM (SELECT DISTINCT k.value FROM keys k
      WHERE k.name = ?1
        AND NOT EXISTS (SELECT 1 FROM keys o WHERE o.doc = k.doc AND o.name IN (SELECT value FROM json_each(?2))));

-- name: key_values_below
-- Not as JSON, which rounds numbers: the last value is where the next page begins.
SELECT DISTINCT k.value FROM keys k
WHERE k.name = ?1 AND k.value < (SELECT value FROM json_each(?2))
  AND NOT EXISTS (SELECT 1 FROM keys o WHERE o.doc = k.doc AND o.name IN (SELECT value FROM json_each(?3)))
ORDER BY k.value DESC LIMIT ?4;

-- name: keyed_count
SELECT count(*) FROM keys WHERE name = ? AND value IN (SELECT value FROM json_each(?));

-- name: titled
SELECT json_group_array(json_array(collection, id))
FROM (SELECT DISTINCT d.collection, d.id FROM keys k JOIN documents d ON d.doc = k.doc
      WHERE k.name = 'title' AND k.value >= ?1 AND k.value < ?2 LIMIT ?3);

-- name: keys_of_ids
SELECT json_group_array(json_array(d.id, k.value))
FROM documents d CROSS JOIN keys k
WHERE d.collection = ?2 AND d.id IN (SELECT value FROM json_each(?3)) AND k.doc = d.doc AND k.name = ?1;
