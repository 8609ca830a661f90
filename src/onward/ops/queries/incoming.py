"""What callers have published in transactions of their own, and no process has moved to the ledger yet."""

from __future__ import annotations

from dataclasses import dataclass

from onward.ledger.store import Store

LATE_SECONDS = 60.0  # a worker that is alive moves it within a second


@dataclass(frozen=True, slots=True)
class IncomingBacklog:
    """The publications that wait to be moved to the ledger."""

    waiting: int = 0
    oldest_waits_seconds: float = 0.0

    @property
    def late(self) -> bool:
        return self.oldest_waits_seconds > LATE_SECONDS


def read_incoming(store: Store) -> IncomingBacklog:
    found = store.incoming_count()
    waits = 0.0 if found.oldest is None else max(0.0, store.now() - found.oldest)
    return IncomingBacklog(found.waiting, round(waits, 3))
