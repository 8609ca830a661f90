"""Output of the commands: JSON, tables, documents, progress."""
