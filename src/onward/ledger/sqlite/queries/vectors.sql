-- Vectors of documents, and their changes.

-- name: insert_vectors
INSERT OR REPLACE INTO vectors (doc, model, vector) VALUES {values};

-- name: delete_vectors
DELETE FROM vectors WHERE doc IN (SELECT value FROM json_each(?));

-- name: vector_changes
SELECT json_array(max(change), json_group_array(doc))
FROM (SELECT change, doc FROM vector_changes WHERE change > ?1 ORDER BY change LIMIT ?2);

-- name: prune_vector_changes
-- A process that is further behind reads the whole vector space again, and needs no older change.
DELETE FROM vector_changes
WHERE change <= (SELECT change FROM vector_changes ORDER BY change DESC LIMIT 1 OFFSET ?);

-- name: last_vector_change
SELECT max(change) FROM vector_changes;

-- name: vectors
SELECT d.doc, d.id, substr(d.parent, length(?3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = ?3 AND p.id = substr(d.parent, length(?3) + 2)
WHERE v.model = ?1 AND d.collection = ?2 AND length(v.vector) = ?4
ORDER BY d.id;

-- name: vectors_of_docs
SELECT d.doc, d.id, substr(d.parent, length(?3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = ?3 AND p.id = substr(d.parent, length(?3) + 2)
WHERE v.doc IN (SELECT value FROM json_each(?5)) AND v.model = ?1 AND d.collection = ?2 AND length(v.vector) = ?4
ORDER BY d.id;

-- name: vectors_of_parents
SELECT d.doc, d.id, p.id, p.doc, d.source, v.vector
FROM documents p CROSS JOIN documents d ON d.parent = ?3 || '/' || p.id AND +d.collection = ?2
CROSS JOIN vectors v ON v.doc = d.doc
WHERE p.collection = ?3 AND p.id IN (SELECT value FROM json_each(?5)) AND v.model = ?1 AND length(v.vector) = ?4
ORDER BY d.id;

-- name: docs_by_key
SELECT json_group_array(doc) FROM keys
WHERE name = ?1 AND CASE ?2 WHEN '='  THEN value = json_extract(?3, '$[0]')
                            WHEN '>=' THEN value >= json_extract(?3, '$[0]')
                            WHEN '<'  THEN value < json_extract(?3, '$[0]')
                            ELSE value LIKE json_extract(?3, '$[0]') ESCAPE '\' END;

-- name: ids_without_vector
SELECT json_group_array(id)
FROM (SELECT d.id FROM documents d LEFT JOIN vectors v ON v.doc = d.doc AND v.model = ?1
      WHERE d.collection = ?2 AND d.id > ?3 AND d.status IN ('processed', 'pending') AND v.doc IS NULL
      ORDER BY d.id LIMIT ?4);
