"""The port that wakes workers when ledger rows may be due."""

from __future__ import annotations

from typing import Protocol


class Bus(Protocol):
    """Wakes a worker up. A wake-up is only a hint: the worker then reads the ledger."""

    def wait(self, seconds: float) -> None:
        """Return when rows may have become due, when `wake` is called, or after this time."""
        ...

    def wake(self) -> None:
        """Make `wait` return; callable from any thread."""
        ...

    def close(self) -> None: ...
