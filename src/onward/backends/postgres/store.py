"""The store on PostgreSQL, for more than one machine."""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from weakref import WeakSet

import psycopg

from onward.backends.postgres import searching
from onward.backends.postgres.bus import ListeningBus
from onward.backends.postgres.database import Database
from onward.backends.relational.store import RelationalStore
from onward.model.events import Envelope
from onward.model.ledger import Published
from onward.ports import Bus, Clock, StoreError

ASKED_EVERY = 15.0
"""Seconds after which the server is asked for its time again."""
BELIEVED = 1.0
"""An answer that took longer says too little about now."""


class DatabaseClock:
    """The server's time, so that all machines agree on what is due; asked for now and then."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._ahead = 0.0
        self._asked = -ASKED_EVERY
        self._ask()

    def now(self) -> float:
        now = time.monotonic()
        if now - self._asked > ASKED_EVERY and self._lock.acquire(blocking=False):
            try:
                self._ask()
            except (StoreError, psycopg.Error):
                self._asked = time.monotonic()  # its last word holds until it is back
            finally:
                self._lock.release()
            now = time.monotonic()
        return now + self._ahead

    def _ask(self) -> None:
        before, theirs, after = self._database.clock()
        if after - before < BELIEVED or not self._ahead:
            self._ahead = theirs - (before + after) / 2
        self._asked = after


class PostgresStore(RelationalStore):
    """Documents and ledger in a schema of a PostgreSQL database, shared by any number of machines."""

    db: Database
    remote = True

    def __init__(self, url: str, clock: Clock | None = None, *, patience: float = 60.0) -> None:
        database = Database(url, patience=patience)
        try:
            super().__init__(database, clock or DatabaseClock(database), searching)
        except BaseException:
            database.close()
            raise
        self._hearing: WeakSet[ListeningBus] = WeakSet()

    def bus(self) -> Bus:
        bus = ListeningBus(self.db)
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
