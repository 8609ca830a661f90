-- Vector spaces, as they are kept in memory.

-- name: placings
SELECT json_array(max(change), json_group_array(doc))
FROM (SELECT change, doc FROM placings WHERE change > ?1 ORDER BY change LIMIT ?2);

-- name: last_placing
SELECT max(change) FROM placings;

-- name: space
SELECT d.doc, d.id, substr(d.parent, length(?3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = ?3 AND p.id = substr(d.parent, length(?3) + 2)
WHERE v.model = ?1 AND d.collection = ?2 AND length(v.vector) = ?4
ORDER BY d.id;

-- name: space_of
SELECT d.doc, d.id, substr(d.parent, length(?3) + 2), p.doc, d.source, v.vector
FROM vectors v JOIN documents d ON d.doc = v.doc
LEFT JOIN documents p ON p.collection = ?3 AND p.id = substr(d.parent, length(?3) + 2)
WHERE v.doc IN (SELECT value FROM json_each(?5)) AND v.model = ?1 AND d.collection = ?2 AND length(v.vector) = ?4
ORDER BY d.id;

-- name: space_among
SELECT d.doc, d.id, p.id, p.doc, d.source, v.vector
FROM documents p CROSS JOIN documents d ON d.parent = ?3 || '/' || p.id AND +d.collection = ?2
CROSS JOIN vectors v ON v.doc = d.doc
WHERE p.collection = ?3 AND p.id IN (SELECT value FROM json_each(?5)) AND v.model = ?1 AND length(v.vector) = ?4
ORDER BY d.id;

-- name: keyed_docs
SELECT json_group_array(doc) FROM keys
WHERE name = ?1 AND CASE ?2 WHEN '='  THEN value = json_extract(?3, '$[0]')
                            WHEN '>=' THEN value >= json_extract(?3, '$[0]')
                            WHEN '<'  THEN value < json_extract(?3, '$[0]')
                            ELSE value LIKE json_extract(?3, '$[0]') ESCAPE '\' END;
