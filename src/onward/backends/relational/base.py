"""What all parts of the relational store share: the database, the clock, transactions."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from onward.backends.relational.books import NO_WIRE, Books
from onward.backends.relational.database import Database
from onward.ports import Clock, StoreConflict

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="RelationalBase")

MEETINGS = 10
"""How often a transaction that others got in the way of is done again."""
MEETINGS_ALONE = 60
FIRST_PAUSE, LONGEST_PAUSE = 0.002, 2.0


class RelationalBase:
    """A database and a clock."""

    remote = False
    wired = False

    def __init__(self, db: Database, clock: Clock) -> None:
        self.db = db
        self.clock = clock

    def now(self) -> float:
        return self.clock.now()

    def transaction(self, *, alone: bool = False) -> AbstractContextManager[None]:
        return self.db.transaction(alone=alone)

    def atomically(self, steps: Callable[[], T], *, alone: bool = False) -> T:
        """Run `steps` in a transaction; from the start again when another one got in its way."""
        if self.db.in_transaction():
            with self.db.transaction(alone=alone):
                return steps()  # whoever began it does all of it again
        meetings = MEETINGS_ALONE if alone else MEETINGS
        for meeting in range(meetings):
            try:
                with self.db.transaction(alone=alone):
                    return steps()
            except StoreConflict:
                if meeting == meetings - 1:
                    raise
            # Those who met must not meet again.
            time.sleep(random.uniform(0, min(FIRST_PAUSE * 2**meeting, LONGEST_PAUSE)))
        raise AssertionError("it has returned or raised")

    def _books(self) -> Books:
        books = Books(self.db, self.now(), unannounced=None if self.wired else NO_WIRE)
        self.db.watch(books.woken)
        return books


def transactional(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction, or part of the one that it is called in."""

    @wraps(method)
    def whole(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        return self.atomically(lambda: method(self, *args, **kwargs))

    return whole
