"""Full-text search and vector search over the documents of a store."""

from onward.model.search_query import Filter, Term

__all__ = ["Filter", "Term"]
