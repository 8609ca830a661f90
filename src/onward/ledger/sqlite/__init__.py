"""The embedded backend."""

from onward.ledger.sqlite.store import SQLiteStore

__all__ = ["SQLiteStore"]
