"""The base of all parts of the store: the database, the clock, transactions that are repeated after a conflict."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from onward.ledger.dialect import Database
from onward.ledger.joins import complete_joins
from onward.ledger.reader import Reader
from onward.ledger.serial_keys import hand_over_keys
from onward.ledger.store_errors import StoreConflict
from onward.ledger.unit_of_work import CompletedQuota, UnitOfWork
from onward.model.breaker import USUAL_RULES
from onward.model.clock import Clock
from onward.model.ledger import NOTHING_LEAVES

P = ParamSpec("P")
T = TypeVar("T")
S = TypeVar("S", bound="TransactionalStore")

MAX_CONFLICT_RETRIES = 9
MAX_CONFLICT_RETRIES_ALONE = 59  # It waits only briefly for the other transactions, and so fails more often
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.002, 2.0


class TransactionalStore(Reader):
    """A database, a clock and transactions."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db)
        self.clock = clock or db.clock()
        self._clock_given = clock is not None
        self.outgoing = NOTHING_LEAVES  # Which events of this process are put into the outbox
        self.breaker_rules = USUAL_RULES
        self.completed = CompletedQuota()

    @property
    def remote(self) -> bool:
        """Whether calls wait for a server; then they are kept off the event loop."""
        return self.db.remote

    def now(self) -> float:
        """Return the time of the store's clock, in seconds since the epoch."""
        return self.clock.now()

    def wake_engines(self) -> None:
        """Let the engines of this process look for new rows."""

    def transaction(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """Make several calls one transaction: all of it, or nothing. It may end in `StoreConflict`."""
        return self.db.transaction(alone=alone)

    def atomically(self, steps: Callable[[], T], *, alone: bool = False) -> T:
        """Run `steps` in one transaction, and repeat it from the start after a conflict with another one."""
        if self.db.in_transaction():
            with self.db.transaction(alone=alone):
                return steps()  # the outermost caller repeats the whole transaction
        retries = MAX_CONFLICT_RETRIES_ALONE if alone else MAX_CONFLICT_RETRIES
        for retry in range(retries + 1):
            try:
                with self.db.transaction(alone=alone):
                    return steps()
            except StoreConflict:
                if retry == retries:
                    raise
            # A random pause, so that the same transactions do not conflict again.
            time.sleep(random.uniform(0, min(FIRST_PAUSE_SECONDS * 2**retry, LONGEST_PAUSE_SECONDS)))
        raise AssertionError("the loop returns or raises")


def transactional(method: Callable[Concatenate[S, UnitOfWork, P], T]) -> Callable[Concatenate[S, P], T]:
    """Make a method one transaction, or part of the one that it is called in.

    The method gets a unit of work, which is written at the end.
    """

    @wraps(method)
    def whole(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        published = False

        def steps() -> T:
            nonlocal published
            unit = UnitOfWork(self.db, self.now(), self.outgoing, self.breaker_rules, self.completed)
            unit.clock_given = self._clock_given
            self.db.notify_on_commit(unit.woken, unit.returned)
            result = method(self, unit, *args, **kwargs)
            unit.write()
            if unit.released_keys:
                hand_over_keys(unit)  # before joins are locked, as `settle` does
            if unit.ended_members or unit.new_joins or unit.released_joins:
                published = complete_joins(unit)
            return result

        result = self.atomically(steps)
        if published:
            self.wake_engines()
        return result

    return whole
