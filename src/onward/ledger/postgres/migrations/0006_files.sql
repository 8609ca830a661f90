-- Messages that are files or web pages, not mails, have a key with the id of their source.
INSERT INTO keys
SELECT m.doc, 'file', s.value
FROM documents a JOIN bodies b ON b.doc = a.doc
JOIN keys s ON s.doc = a.doc AND s.name = 'source_id'
JOIN keys o ON o.doc = a.doc AND o.name = 'origin'
JOIN keys k ON k.name = 'origin' AND k.value = o.value
JOIN documents m ON m.doc = k.doc AND m.collection = 'messages'
WHERE a.collection = 'archives' AND b.body::json->>'kind' NOT IN ('source', 'mbox', 'eml')
ON CONFLICT DO NOTHING;
