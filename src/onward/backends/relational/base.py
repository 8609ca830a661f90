"""What all parts of the relational store share: the database, the clock, transactions."""

from __future__ import annotations

from contextlib import AbstractContextManager

from onward.backends.relational.books import Books
from onward.backends.relational.database import Database
from onward.ports import Clock


class RelationalBase:
    """A database and a clock."""

    def __init__(self, db: Database, clock: Clock) -> None:
        self.db = db
        self.clock = clock

    def now(self) -> float:
        return self.clock.now()

    def transaction(self) -> AbstractContextManager[None]:
        return self.db.transaction()

    def _books(self) -> Books:
        return Books(self.db, self.now())
