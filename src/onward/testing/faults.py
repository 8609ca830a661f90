"""A database whose commits get lost, whose answers get lost, and whose client dies at any statement."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.ledger.store_errors import StoreUnavailable

STATEMENTS = frozenset({"read", "read_unlocked", "run", "send", "bulk", "fetch", "reserve"})


class Killed(BaseException):
    """The worker process is dead."""


class FaultyDatabase:
    """Passes everything on to a database that all processes of a fleet share, or fails."""

    def __init__(self, database: SQLiteDatabase, random: Random, happened: Counter[str]) -> None:
        self._database = database
        self._random = random
        self._happened = happened
        self.rate = 0.0
        """The chance that a commit fails."""
        self.is_down = False
        self._statements_left: int | None = None

    @property
    def has_trouble(self) -> bool:
        return self.is_down or self.rate > 0

    def die_after(self, statements: int | None) -> None:
        """Kill the process after this many more statements; None: do not."""
        self._statements_left = statements

    def _count(self) -> None:
        if self._statements_left is not None:
            if self._statements_left <= 0:
                raise Killed
            self._statements_left -= 1

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[None]:
        if self._database.in_transaction():
            with self._database.transaction(alone=alone):
                yield
            return
        if self.is_down:
            raise StoreUnavailable("the store is down")
        fate = self._random.random()
        with self._database.transaction(alone=alone):
            yield
            self._count()  # everything is written, nothing is committed
            if fate < self.rate:
                self._happened["lost commits"] += 1
                raise StoreUnavailable("the connection was lost before the commit")
        self._count()  # it is committed, and the process does not know
        if self.rate <= fate < 2 * self.rate:
            self._happened["unknown commits"] += 1
            raise StoreUnavailable("the connection was lost after the commit")

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._database, name)
        if name not in STATEMENTS:
            return found

        def statement(*given: Any) -> Any:
            if self.is_down:
                raise StoreUnavailable("the store is down")
            self._count()
            return found(*given)

        return statement
