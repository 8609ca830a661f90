"""The embedded store: everything in one SQLite file, with no set-up."""

from __future__ import annotations

from pathlib import Path

from onward.backends.relational.store import RelationalStore
from onward.backends.sqlite.bus import PollingBus
from onward.backends.sqlite.database import Database
from onward.ports import Bus, Clock, SystemClock


class SQLiteStore(RelationalStore):
    """Documents and ledger in one SQLite file, or in memory for tests (`:memory:`)."""

    db: Database

    def __init__(self, path: str | Path = ":memory:", clock: Clock | None = None) -> None:
        super().__init__(Database(path), clock or SystemClock())

    def bus(self) -> Bus:
        return PollingBus(self.db)

    def close(self) -> None:
        self.db.close()
