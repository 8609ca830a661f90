"""Events that are published once until a time, by the key of each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from onward.ledger.transactions import TransactionalStore

# How long an entry is kept after its time: a publication in a caller's transaction is compared with the entries of
# the time at which it was made, and may be moved to the ledger later.
KEEP_UNIQUE_SECONDS = 86_400.0


@dataclass(frozen=True, slots=True)
class UniqueEvent:
    """An event that is published once until a time."""

    key: str
    event_id: str
    document_id: str = ""  # Its first document, if it was published with one


class UniqueEvents(TransactionalStore):
    """The part of the store that keeps the keys of published events."""

    def remember_unique(self, events: Sequence[UniqueEvent], *, at: float, until: float) -> dict[str, UniqueEvent]:
        """Store events for the time from `at` on; return those of which one was published within it, by key.

        Call it in the transaction that publishes the others. Of two transactions with the same key, the second
        waits for the first; if that is rolled back, nothing of it is remembered. The keys must be different.
        """
        given = [[event.key, event.event_id, event.document_id] for event in events]
        new = {key for (key,) in self.db.fetch("remember_unique", at, until, given)}
        known = [event.key for event in events if event.key not in new]
        if not known:
            return {}
        return {key: UniqueEvent(key, *more) for key, *more in self.db.read("unique_events", known)}
