"""A database that crashes at a chosen statement."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from onward.ledger.dialect import Bus, Database
from onward.ledger.store import Store
from onward.model.clock import Clock


class Crash(Exception):
    """The process was killed here."""


class FragileDatabase:
    """Passes everything on to a database, until its fuse has burned down."""

    remote = False
    returned = incoming = 0

    def __init__(self, database: Database) -> None:
        self.database = database
        self.keeps_old_rows = database.keeps_old_rows
        self.kind, self.file, self.incoming_table = database.kind, database.file, database.incoming_table
        self.fuse = 0
        """At which statement from now on it crashes; 0: never."""

    def _burn(self) -> None:
        if self.fuse:
            self.fuse -= 1
            if not self.fuse:
                raise Crash

    def close(self) -> None:
        self.database.close()

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[None]:
        with self.database.transaction(alone=alone):
            yield
            self._burn()  # everything is written, nothing is committed

    def read(self, name: str, *parameters: Any) -> Any:
        self._burn()
        return self.database.read(name, *parameters)

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        self._burn()
        return self.database.fetch(name, *parameters)

    def read_unlocked(self, name: str, *parameters: Any) -> Any:
        self._burn()
        return self.database.read_unlocked(name, *parameters)

    def in_transaction(self) -> bool:
        return self.database.in_transaction()

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        self._burn()
        return self.database.lock(kind, names)

    def notify_on_commit(self, woken: set[str], returned: set[str]) -> None:
        self.database.notify_on_commit(woken, returned)

    def run(self, name: str, *parameters: Any) -> int:
        self._burn()
        return self.database.run(name, *parameters)

    def send(self, name: str, *parameters: Any) -> None:
        self._burn()
        self.database.send(name, *parameters)

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        self._burn()
        self.database.bulk(name, rows)

    def reserve(self, table: str) -> int:
        self._burn()
        return self.database.reserve(table)

    def clock(self) -> Clock:
        return self.database.clock()

    def exact_time(self) -> float:
        return self.database.exact_time()

    def bus(self) -> Bus:
        return self.database.bus()


class FragileStore(Store):
    """A store on a database that crashes at a chosen statement."""

    db: FragileDatabase

    def __init__(self, database: Database, clock: Clock) -> None:
        super().__init__(FragileDatabase(database), clock)
