"""The document pipeline: from mail archives, pages and folders to search and summaries."""
