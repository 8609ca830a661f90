"""Values of the ledger: deliveries that a worker receives, and settlements that it commits."""

from __future__ import annotations

from collections.abc import Sequence, Set
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onward.model.events import Envelope
from onward.model.failures import Failure
from onward.model.joins import NewJoin
from onward.retry import Reason

# From this number of unexplained deaths on, an event runs alone in a process of its own. The SQL statements have
# the number (`deaths < 2`, `deaths >= 2`), because a partial index takes no parameter.
SUSPECT_DEATHS = 2
MAX_DEATHS = 3
MAX_COMMIT_DOCUMENTS = 1_000
MAX_COMMIT_BYTES = 8_000_000
BACKGROUND = -1  # The priority of work that is done when nothing else is due: the retry of a failed batch
OVERDUE = 900.0  # Seconds after which a background row gets one of every `BACKGROUND_EVERY` claims
BACKGROUND_EVERY = 10
MAX_RAW_BYTES = 1_000_000  # Bytes that are kept of an event that cannot be read. Onward's own have up to 64 kB
PARKED_DUE = 253_370_764_800.0  # The due time of a row that waits for its key: year 9999. SQL has the number
KEEP_UNROUTED_SECONDS = 7 * 86_400.0  # How long an event waits for a first consumer to subscribe
MAX_UNROUTED = 100_000  # Events that are kept for a first consumer; the oldest are deleted first


class PerKey(StrEnum):
    """Values of `Subscription.per_key`."""

    ONE = "one"
    ORDERED = "ordered"


class RowState(StrEnum):
    WAITING = "waiting"
    CLAIMED = "claimed"
    DONE = "done"
    DEAD = "dead"
    UNROUTED = "unrouted"
    ARCHIVED = "archived"  # A dead letter that an operator has archived


@dataclass(frozen=True, slots=True)
class Subscription:
    """A service's subscription to an event type. It is stored, so that publishers need not know the service."""

    service: str
    event_type: str
    finishes: str | None = None
    ids_field: str | None = None
    naming: tuple[str, ...] = ()
    needs: tuple[str, ...] = ()
    failed_queue: str = ""
    version: int = 1
    was: tuple[str, ...] = ()  # Former names of the service, whose rows it takes over
    round_rules: str = ""  # What the collection it finishes declares about rounds, as `RoundRules` stores it
    per_key: str = (
        ""  # `one`: its rows with the same key run one at a time; `ordered`: and in order; empty: neither
    )


@dataclass(frozen=True, slots=True)
class OutgoingEvents:
    """The event types that leave for other programs; None: all."""

    types: frozenset[str] | None = frozenset()

    def __bool__(self) -> bool:
        return self.types is None or bool(self.types)

    def __contains__(self, envelope: Envelope) -> bool:
        return bool(envelope.routing_key) and (self.types is None or envelope.event_type in self.types)


NOTHING_LEAVES = OutgoingEvents()


@dataclass(frozen=True, slots=True)
class OutgoingEvent:
    """An event in the outbox: the body of its message, and the routing key."""

    id: int
    event_id: str
    routing_key: str
    body: str


@dataclass(frozen=True, slots=True)
class GatewayReport:
    """What the process that has the gateway last reported."""

    holder: str = ""
    at: float = 0.0
    trouble: str = ""  # Why no events arrive or leave; empty: nothing is wrong
    emptied_at: float = 0.0  # When the inbox was last found empty, with everything from it stored
    process: dict[str, Any] = field(default_factory=dict)  # Its identity on its machine


@dataclass(frozen=True, slots=True)
class OutboxStatus:
    """How far the outbox is behind."""

    waiting: int
    oldest: float | None  # When the oldest event that waits was put into the outbox
    unroutable: int  # Events that no queue of the broker takes
    gateway: GatewayReport


class InputStatus(StrEnum):
    """The status of a document for the delivery that names it."""

    READY = "ready"
    MISSING = "missing"
    FINAL = "final"
    SUPERSEDED = "superseded"


@dataclass(slots=True)
class Input:
    """A document of a delivery, as it was read when the delivery was claimed."""

    id: str
    status: InputStatus
    revision: int = 0
    round: int = 0
    body: str | None = None  # None: not read yet, because the claim has reached its limit of bytes
    failed: bool = False  # It has failed before. Only set in a delivery that has expired
    in_time: bool = False  # Its content was replaced, and its deadline with it. Only set in such a delivery, too


@dataclass(slots=True)
class Delivery:
    """An event that a worker has claimed, with a lease and a fencing token."""

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
    able: float = 0.0  # Seconds during which this event could have been tried; what rung 1's limit counts
    deaths: int = 0
    # Its start is recorded before it runs, and it is committed alone: its worker was lost earlier. A lease lapsed
    # and it is unknown whether it ran, or the worker died when the handler had finished and the commit had not.
    # The ledger counts these cases in the column `lapses`.
    careful: bool = False
    batch: int | None = None  # The most documents that a call may get, after halving has begun
    cursor: str | None = None
    source: str | None = None
    trace: str | None = None
    failed_at: float | None = None  # When it failed for the first time
    failed_trace: str | None = None  # The trace of its last failed try
    expires: float | None = None  # The time after which no try of it begins
    expired: bool = False  # That time had passed when it was claimed: it is settled without a try
    key_error: BaseException | None = None  # Why its key could not be computed; its call fails with it
    calls: int | None = (
        None  # How many calls the limits of a dependency allow; other documents return to the queue
    )
    granted_at: float | None = (
        None  # When a rate allowed them; a call that has not begun by `begin_by` is released
    )
    begin_by: float | None = None


@dataclass(slots=True)
class NewDocument:
    """A document to be written, already serialised and validated."""

    collection: str
    id: str
    body: str
    source: str | None = None
    parent: str | None = None
    priority: int = 0
    keys: Sequence[tuple[str, str | float]] = ()
    failure: Failure | None = None  # It is stored as failed from the start, with this failure


@dataclass(slots=True)
class Replacement:
    """New content of a document, written if its revision is unchanged."""

    collection: str
    id: str
    body: str
    revision: int
    keys: Sequence[tuple[str, str | float]] = ()
    keeps_results: bool = False  # status, descendants, texts and vectors stay


@dataclass(slots=True)
class IndexedText:
    collection: str
    id: str
    title: str
    text: str
    quoted: str = ""  # Quoted text of others; its words count less
    terms: bytes | None = None  # The terms of the text with their weights and its length, as they are packed
    weights: bytes | None = None
    length: int = 0
    date: float | None = None
    facets: str = "{}"  # Values by which texts can be filtered and counted, as JSON


@dataclass(slots=True)
class IndexedVector:
    collection: str
    id: str
    model: str
    vector: bytes


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document found by one of its keys, or by its parent."""

    value: str | float  # The key's value, or the parent's `collection/id`
    id: str
    status: str
    revision: int
    set_aside: bool  # It is in a failed batch


class Charge(StrEnum):
    """The counter that a retry is charged to."""

    NOTHING = "nothing"
    TRY = "try"
    NOT_READY = "not_ready"


@dataclass(slots=True)
class Processed:
    ids: Sequence[str] = ()


@dataclass(slots=True)
class RetryLater:
    """These documents (none named: all of the delivery) are tried again later."""

    ids: Sequence[str] = ()
    after: float = 0.0
    until: float | None = None
    charge: Charge = Charge.NOTHING
    able: float = 0.0
    failure: Failure | None = None
    batch: int | None = None
    deaths: int | None = None  # The event's new count of deaths; None: unchanged
    given_back: bool = False  # A dependency caused the failure, and no try is charged
    own_deadline: bool = False  # The event gets the deadline of these documents


@dataclass(slots=True)
class DeadLettered:
    """The event of these documents (none named: all) becomes a dead letter."""

    ids: Sequence[str] = ()
    reason: Reason = Reason.MAX_ATTEMPTS_EXCEEDED
    failure: Failure | None = None
    final: bool = False  # The documents become `failed`; else they stay `pending` for the retry job
    charge: Charge = Charge.NOTHING
    raw: bytes | None = None
    notice: Envelope | None = None


@dataclass(slots=True)
class InFailedBatch:
    """These documents failed while others succeeded: they join the failed batch of their source."""

    ids: Sequence[str]
    failure: Failure
    after: float = 60.0  # Seconds until the batch is retried, if these documents are its first
    notice: Envelope | None = None


@dataclass(slots=True)
class Expired:
    """The deadline passed before the first try: these documents, if there are any, are discarded."""

    ids: Sequence[str] = ()


SettlementPart = Processed | RetryLater | DeadLettered | InFailedBatch | Expired


@dataclass(slots=True)
class DependencyReport:
    """The evidence of a try about the dependencies that its service needs."""

    succeeded: Sequence[str] = ()
    struck: str | None = None
    ids: Sequence[str] = ()  # The documents that the failed call was about
    opens: str | None = None
    by_health: bool = False  # It was the health call that said no
    unreached: bool = False  # It was not reached, and has no health call: a single document is not charged
    reason: str = ""
    remedy: str = ""
    paused: str | None = None
    pause: float = 0.0


@dataclass(slots=True)
class Settlement:
    """The changes of one work of a delivery, committed in one transaction.

    The delivery's row is settled when `closes` is set; without it the row stays claimed, as after a
    checkpoint or when the delivery has more documents under way.
    """

    row: int
    token: int
    collection: str | None = None
    inputs: Sequence[tuple[str, int]] = ()  # The delivery's documents it relied on, and the revisions it read
    reads: Sequence[tuple[str, str, int]] = ()  # Other documents it relied on: collection, id, revision
    adds: Sequence[NewDocument] = ()
    replaces: Sequence[Replacement] = ()
    removes: Sequence[tuple[str, str]] = ()
    emits: Sequence[Envelope] = ()
    texts: Sequence[IndexedText] = ()
    vectors: Sequence[IndexedVector] = ()
    joins: Sequence[NewJoin] = ()
    parts: Sequence[SettlementPart] = ()
    closes: bool = True
    starts: bool = False  # Record that the handler is about to run, so that a crash can be attributed to it
    cursor: str | None = None  # The position from which a redelivery continues, as JSON text
    lease: float = 0.0  # Seconds that its worker keeps what it has claimed, if the row stays claimed: it is alive
    dependencies: DependencyReport | None = None
    worker: str = ""
    version: str = ""
    began: float | None = None  # When the call began; None: no handler was called
    service: str = ""


class CommitStatus(StrEnum):
    COMMITTED = "committed"
    FENCED = "fenced"  # The delivery was taken over: nothing was written
    STALE = "stale"  # An input has changed: nothing was written, and the delivery was requeued without a charge


@dataclass(slots=True)
class CommitResult:
    status: CommitStatus
    duplicates: int = 0  # Emitted events that were waiting already
    opened: Sequence[str] = ()
    closed: Sequence[str] = ()
    parts: Sequence[SettlementPart] | None = None  # Committed instead, if a dependency caused the failure
    woken: Set[str] = frozenset()  # Services that have new rows to claim


@dataclass(frozen=True, slots=True)
class KeptDocument:
    """A stored document that keeps its content, although it was published with other content."""

    collection: str
    id: str
    revision: int


@dataclass(frozen=True, slots=True)
class Published:
    """The result of one published event."""

    event_id: str
    rows: int = 0  # Services that will get it
    # Services that have it waiting already; 1 if it is unique for a time, and `event_id` is that of the first.
    duplicates: int = 0
    unrouted: bool = False  # No service consumes it yet
    kept: tuple[KeptDocument, ...] = ()  # Stored with other content, which stays; `app.replace` changes it
    awaits_commit: bool = False  # Published in the caller's transaction: all but the id is known after its commit


@dataclass(frozen=True, slots=True)
class PublishedMany:
    """The counts of `app.publish_many`."""

    items: int = 0  # Events that were taken; each is stored, or a duplicate
    documents: int = 0  # Documents that were not stored before
    duplicates: int = 0  # Events that were waiting already, or are not published again for a time


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An event given up for now, with its diagnosis, under its service's failed queue."""

    row: int
    failed_queue: str
    original_event: dict[str, Any] | None  # None: its bytes are no JSON object
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
    properties: dict[str, Any] | None = None  # What its transport said about it: headers, routing key, …
    unread: bool = False  # `raw` is a message that could not be read as an event. Its key is its event id


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
