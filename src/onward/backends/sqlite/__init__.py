"""The embedded backend."""

from onward.backends.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
