-- Archives are found by their place without reading the messages of that place, which have the same origin.
INSERT OR IGNORE INTO keys
SELECT k.doc, 'place', k.value FROM documents d JOIN keys k ON k.doc = d.doc
WHERE d.collection = 'archives' AND k.name = 'origin';
