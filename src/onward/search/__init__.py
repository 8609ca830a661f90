"""Full-text search and vector search over the documents of a store."""
