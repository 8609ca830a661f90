"""A worker that is killed at a chosen statement of its store."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onward.ledger.dialect import Database
from onward.testing import Simulation


class Killed(BaseException):
    """The worker process is no more."""


class Fragile:
    """Passes everything on to a database until its worker is killed; from then on nothing."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._fuse: int | None = None

    def crash_after(self, statements: int) -> None:
        """Kill the worker after so many more statements."""
        self._fuse = statements

    def crashes(self, run: Callable[[], object]) -> bool:
        """Run something, and tell whether the worker was killed; if so, another one is started."""
        try:
            run()
        except Killed:
            return True
        finally:
            self._fuse = None
        return False

    def _burn(self) -> None:
        if self._fuse is not None:
            if self._fuse == 0:
                raise Killed
            self._fuse -= 1

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[None]:
        with self._database.transaction(alone=alone):
            yield
            self._burn()  # everything is written, nothing is committed
        self._burn()  # it is committed, and the worker never knew

    def read(self, name: str, *parameters: Any) -> Any:
        self._burn()
        return self._database.read(name, *parameters)

    def read_unlocked(self, name: str, *parameters: Any) -> Any:
        self._burn()
        return self._database.read_unlocked(name, *parameters)

    def in_transaction(self) -> bool:
        return self._database.in_transaction()

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        self._burn()
        return self._database.lock(kind, names)

    def notify_on_commit(self, woken: set[str], returned: set[str]) -> None:
        self._database.notify_on_commit(woken, returned)

    def run(self, name: str, *parameters: Any) -> int:
        self._burn()
        return self._database.run(name, *parameters)

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self._burn()
        self._database.bulk(name, rows)

    def reserve(self, table: str) -> int:
        self._burn()
        return self._database.reserve(table)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._database, name)  # closing it


def crashing(world: Simulation) -> Fragile:
    """Make a simulation's store crash on demand."""
    store = world.store
    fragile = Fragile(store.db)
    store.db = fragile
    return fragile
