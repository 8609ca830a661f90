"""The ledger's values: what a worker is handed, and what it hands back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.retry import Reason

SUSPECT_DEATHS = 2
"""From this many unexplained deaths on, an event runs alone in a process of its own."""
MAX_DEATHS = 3
MAX_COMMIT_DOCUMENTS = 1_000
MAX_COMMIT_BYTES = 8_000_000
BACKGROUND = -1
"""The priority of what is done when nothing else is: the retry of a failed batch."""
OVERDUE = 900.0
"""What has waited so long in the background gets one of every ten turns."""
TURNS = 10
KEEP_UNROUTED_SECONDS = 7 * 86_400.0
"""How long an event waits for a first consumer to subscribe."""


class RowState(StrEnum):
    """Where a ledger row stands."""

    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    UNROUTED = "unrouted"
    ARCHIVED = "archived"
    """A dead letter that an operator has put away."""


@dataclass(frozen=True, slots=True)
class Subscription:
    """A service's standing order for one event type, stored, so that publishers need not know it."""

    service: str
    event_type: str
    finishes: str | None = None
    ids_field: str | None = None
    naming: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    failed_queue: str = ""
    version: int = 1


class Standing(StrEnum):
    """How a document stands to the delivery that names it."""

    READY = "ready"
    MISSING = "missing"
    FINAL = "final"
    SUPERSEDED = "superseded"


@dataclass(slots=True)
class Input:
    """A document of a delivery, as it was read when the delivery was claimed."""

    id: str
    standing: Standing
    revision: int = 0
    round: int = 0
    body: str | None = None
    """None: not read yet, because the claim had read enough already."""


@dataclass(slots=True)
class Delivery:
    """One hand-over of an event to a worker, under a lease and a fencing token."""

    row: int
    token: int
    service: str
    event_id: str
    event_type: str
    version: int
    data: str
    timestamp: float
    key: str
    collection: str | None = None
    inputs: list[Input] = field(default_factory=list)
    round: int = 0
    priority: int = 0
    tries: int = 0
    not_ready: int = 0
    able: float = 0.0
    """Seconds during which this event could have been tried; what rung 1's limit counts."""
    deaths: int = 0
    careful: bool = False
    """A lease on it lapsed and nobody knows why: its start is recorded before it runs."""
    batch: int | None = None
    """How many documents a call may get at most, once halving has begun."""
    cursor: str | None = None
    source: str | None = None
    trace: str | None = None
    errors: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class NewDocument:
    """A document to be written, serialised and validated already."""

    collection: str
    id: str
    body: str
    source: str | None = None
    parent: str | None = None
    priority: int = 0
    keys: Sequence[tuple[str, str | float]] = ()
    failure: Failure | None = None
    """It is kept as failed from the start, for this reason."""


@dataclass(slots=True)
class Replacement:
    """A document's new content, if its revision still holds."""

    collection: str
    id: str
    body: str
    revision: int
    keys: Sequence[tuple[str, str | float]] = ()


@dataclass(slots=True)
class IndexedText:
    """What full-text search finds a document by."""

    collection: str
    id: str
    title: str
    text: str


@dataclass(slots=True)
class PlacedVector:
    """Where a document lies in the vector space of a model."""

    collection: str
    id: str
    model: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class Found:
    """A document found by one of its keys, or by its parent."""

    value: str | float
    """The key's value, or the parent's `collection/id`."""
    id: str
    status: str
    revision: int
    set_aside: bool
    """It is in a failed batch."""


class Charge(StrEnum):
    """What a wait is counted as."""

    NOTHING = "nothing"
    TRY = "try"
    NOT_READY = "not_ready"


@dataclass(slots=True)
class Done:
    """These documents are finished."""

    ids: Sequence[str] = ()


@dataclass(slots=True)
class Wait:
    """These documents (none named: all of the delivery's) are to be tried again."""

    ids: Sequence[str] = ()
    after: float = 0.0
    until: float | None = None
    charge: Charge = Charge.NOTHING
    able: float = 0.0
    failure: Failure | None = None
    batch: int | None = None
    deaths: int | None = None
    """What the event's count of deaths becomes; None: it stays."""


@dataclass(slots=True)
class Dead:
    """The event of these documents (none named: all) is given up for now, with its diagnosis."""

    ids: Sequence[str] = ()
    reason: Reason = Reason.MAX_ATTEMPTS_EXCEEDED
    failure: Failure | None = None
    final: bool = False
    """The documents become `failed`; else they stay `pending` for the retry job."""
    charge: Charge = Charge.NOTHING
    raw: bytes | None = None
    notice: Envelope | None = None


@dataclass(slots=True)
class Aside:
    """These documents failed while others went on: they join the failed batch of their source."""

    ids: Sequence[str]
    failure: Failure
    after: float = 60.0
    """When the batch is to be tried again, if it begins with them."""
    notice: Envelope | None = None


Part = Done | Wait | Dead | Aside


@dataclass(slots=True)
class DependencyReport:
    """What a try taught about the dependencies its service needs."""

    succeeded: Sequence[str] = ()
    struck: str | None = None
    ids: Sequence[str] = ()
    """The documents that the failed call was about."""
    opens: str | None = None
    reason: str = ""
    remedy: str = ""
    paused: str | None = None
    pause: float = 0.0


@dataclass(slots=True)
class Settlement:
    """What one work of a delivery makes true, all at once.

    The delivery's row is settled when `closes` is set; without it the row stays claimed, as after a
    checkpoint or when the delivery has more documents under way.
    """

    row: int
    token: int
    collection: str | None = None
    inputs: Sequence[tuple[str, int]] = ()
    """Documents of the delivery that this work relied on, with the revision that was read."""
    reads: Sequence[tuple[str, str, int]] = ()
    """Other documents it relied on: collection, id, revision."""
    adds: Sequence[NewDocument] = ()
    replaces: Sequence[Replacement] = ()
    removes: Sequence[tuple[str, str]] = ()
    emits: Sequence[Envelope] = ()
    texts: Sequence[IndexedText] = ()
    vectors: Sequence[PlacedVector] = ()
    parts: Sequence[Part] = ()
    closes: bool = True
    starts: bool = False
    """Record that the handler is about to run, so that a death can be laid at its door."""
    cursor: str | None = None
    """Where a redelivery goes on, as JSON text."""
    lease: float = 0.0
    """For how many seconds the row stays claimed, if it does: whoever checkpoints is alive."""
    dependencies: DependencyReport | None = None
    worker: str = ""
    version: str = ""

    @property
    def only_adds(self) -> bool:
        """Whether it closes a delivery that went well, and makes nothing true but that there are new documents."""
        more = self.removes or self.replaces or self.emits or self.texts or self.vectors or self.cursor
        if more or self.reads or not self.closes or self.starts or self.dependencies is not None:
            return False
        if not all(isinstance(part, Done) for part in self.parts):
            return False
        return all(new.failure is None for new in self.adds)


class Verdict(StrEnum):
    """What became of a settlement."""

    COMMITTED = "committed"
    FENCED = "fenced"
    """The delivery was no longer this worker's: nothing was written."""
    STALE = "stale"
    """An input changed meanwhile: nothing was written, and the delivery went back uncharged."""


@dataclass(slots=True)
class Settled:
    """The store's answer to one settlement."""

    verdict: Verdict
    duplicates: int = 0
    """Emitted events that were waiting already."""
    opened: Sequence[str] = ()
    closed: Sequence[str] = ()
    woken: frozenset[str] = frozenset()
    """Services that have something new to claim."""


@dataclass(frozen=True, slots=True)
class Published:
    """What became of one published event: how many services will get it, and who had it already."""

    event_id: str
    rows: int = 0
    duplicates: int = 0
    unrouted: bool = False


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event given up for now, with its diagnosis, under its service's failed queue."""

    row: int
    failed_queue: str
    original_event: dict[str, Any]
    idempotency_key: str
    attempt_count: int
    last_error: str
    error_type: str
    abandoned_reason: str
    service_name: str
    timestamp: float
    errors: list[dict[str, Any]]
    fingerprint: str
    deaths: int
    round: int
    documents: tuple[tuple[str, str], ...] = ()
    raw: bytes | None = None


@dataclass(frozen=True, slots=True)
class FailedBatch:
    """The items of a source that failed while the others succeeded, to be retried together."""

    id: str
    service: str
    source: str | None
    errors: list[dict[str, Any]]
    retry_count: int
    retry_after: float
    created_at: float
    items: tuple[tuple[str, str], ...]
