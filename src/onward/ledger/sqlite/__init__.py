"""The embedded backend: everything in one SQLite file, without any set-up."""

from __future__ import annotations

from pathlib import Path

from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.ledger.store import Store
from onward.model.clock import Clock


class SQLiteStore(Store):
    """A store in one SQLite file, or in memory for tests (`:memory:`)."""

    db: SQLiteDatabase

    def __init__(self, path: str | Path = ":memory:", clock: Clock | None = None) -> None:
        super().__init__(SQLiteDatabase(path), clock)
