"""How workers hear that ledger rows may be due."""

from __future__ import annotations

from typing import Protocol


class Bus(Protocol):
    """Wakes a worker up; it only ever hints, the ledger is the truth."""

    def wait(self, seconds: float) -> None:
        """Return when rows may have become due, when `wake` is called, or after this time."""
        ...

    def wake(self) -> None:
        """Make `wait` return; callable from any thread."""
        ...

    def close(self) -> None: ...
