"""What a store tells a wire."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from onward.model.ledger import DeadLetter


class Announcing(Protocol):
    """The outbox: due rows that no message tells of yet, and dead letters without a copy in their failed queue.

    Several may take from it at once. What is taken counts as sent, so that nobody else takes it; whoever
    could not send it says so. What was sent and got lost is found by its age.
    """

    wired: bool
    """Whether a wire is told of rows that are put on the ledger from now on."""

    def to_announce(self, service: str, *, limit: int, window: int) -> list[int]:
        """Take due rows of a service, by priority, then due time; no more than a window may be out unclaimed."""
        ...

    def not_announced(self, rows: Sequence[int]) -> None:
        """Rows could not be announced: somebody takes them again."""
        ...

    def announce_again(self, service: str, *, before: float) -> int:
        """Rows that were announced before then and are still due have lost their message; answer how many."""
        ...

    def letters_to_copy(self, services: Sequence[str], *, limit: int) -> list[DeadLetter]:
        """Take dead letters of these services that have no copy yet."""
        ...

    def not_copied(self, rows: Sequence[int]) -> None:
        """Dead letters could not be copied: somebody takes them again."""
        ...
