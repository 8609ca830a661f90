"""A wire: a broker that carries announcements of due rows to workers, and strangers' events to the ledger."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onward.ports.bus import Bus
from onward.ports.store import StoreUnavailable


class WireUnavailable(StoreUnavailable):
    """The broker cannot be reached or takes nothing just now; the ledger holds what it would carry."""


@dataclass(frozen=True, slots=True)
class Queue:
    """What a service hears through."""

    service: str
    routing_key: str
    """Of the events it consumes, as strangers publish them."""
    failed_queue: str
    prefetch: int
    """How many announcements a worker process may hold unacknowledged."""


@dataclass(frozen=True, slots=True)
class Announcement:
    """Rows of one service that were due when this was sent."""

    service: str
    rows: tuple[int, ...]
    tag: Any = None
    """Names the message, for `done`; of no meaning to anybody but the wire."""


@dataclass(frozen=True, slots=True)
class Stranger:
    """A message that is no announcement: an event of a program that knows nothing of Onward, or garbage."""

    raw: bytes
    message_id: str
    """What its publisher called it; empty: nothing."""
    routing_key: str
    tag: Any = None


@dataclass(frozen=True, slots=True)
class Copy:
    """A dead letter, as people who look at the broker see it."""

    failed_queue: str
    body: bytes
    message_id: str


class Wire(Bus, Protocol):
    """Carries announcements; like every bus it only ever hints, the ledger is the truth.

    All methods may be called from any thread. None but `announce`, `copy` and `ready` waits for the broker.
    """

    def open(self, queues: Sequence[Queue]) -> None:
        """Connect, declare what is missing, begin to hear; raises `StoreError` with the remedy if that cannot be.

        Afterwards the wire reconnects by itself, for ever, and declares again what somebody deleted.
        """
        ...

    def take(self, service: str, limit: int) -> list[Announcement]:
        """Announcements for a service that came and were not taken yet, about so many rows; often none."""
        ...

    def strangers(self, limit: int) -> list[Stranger]:
        """Messages from elsewhere that came and were not taken yet."""
        ...

    def done(self, tags: Sequence[Any]) -> None:
        """Acknowledge messages, after the commit; of a connection that is gone: nothing to do."""
        ...

    def announce(self, announcements: Sequence[Announcement]) -> None:
        """Send, and wait until the broker has every one of them; raises `WireUnavailable` if not."""
        ...

    def copy(self, copies: Sequence[Copy]) -> None:
        """Put dead letters into their failed queues, confirmed, as `announce` does."""
        ...

    def ready(self) -> Mapping[str, int]:
        """How many messages wait in each service's queue, for no worker yet; raises `WireUnavailable`."""
        ...

    @property
    def trouble(self) -> str:
        """Why nothing is carried just now (no connection, blocked by the broker); empty: all is well."""
        ...
