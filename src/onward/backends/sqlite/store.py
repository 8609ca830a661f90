"""The embedded store: everything in one SQLite file, with no set-up."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from weakref import WeakSet

from onward.backends.relational.store import RelationalStore
from onward.backends.sqlite import searching
from onward.backends.sqlite.bus import PollingBus
from onward.backends.sqlite.database import Database
from onward.model.events import Envelope
from onward.model.ledger import Published
from onward.ports import Bus, Clock, SystemClock


class SQLiteStore(RelationalStore):
    """Documents and ledger in one SQLite file, or in memory for tests (`:memory:`)."""

    db: Database

    def __init__(self, path: str | Path = ":memory:", clock: Clock | None = None) -> None:
        super().__init__(Database(path), clock or SystemClock(), searching)
        self._hearing: WeakSet[PollingBus] = WeakSet()

    def bus(self) -> Bus:
        bus = PollingBus(self.db)
        self._hearing.add(bus)
        return bus

    def publish(self, envelopes: Sequence[Envelope]) -> list[Published]:
        """Put events on the ledger; engines in this process hear of it at once."""
        published = super().publish(envelopes)
        for bus in list(self._hearing):
            bus.wake()
        return published

    def close(self) -> None:
        self.db.close()
