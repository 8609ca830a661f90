"""A database in which another process does something between two reads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any


class DisturbedDatabase:
    """A database in which other processes do something before chosen reads, one step before each."""

    keeps_old_rows = False
    returned = 0

    def __init__(self, db: Any, first: int, steps: Sequence[Callable[[], object]]) -> None:
        self._db, self._countdown, self.steps = db, first, list(steps)

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        self._disturb()
        return list(self._db.fetch(name, *parameters))

    def read(self, name: str, *parameters: Any) -> Any:
        self._disturb()
        return self._db.read(name, *parameters)

    def in_transaction(self) -> bool:
        return bool(self._db.in_transaction())

    def _disturb(self) -> None:
        if self._countdown:
            self._countdown -= 1
        elif self.steps:
            self.steps.pop(0)()
