"""Reports of the store about the ledger: failure groups, dead letter groups, queues, claims, actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from onward.model.documents import DocumentKey
from onward.model.group_life import GroupLife
from onward.model.ledger import PARKED_DUE, RowState


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """All failures with the same fingerprint, and their common facts."""

    fingerprint: str
    service: str
    collection: str | None
    error_type: str
    message: str  # The message of the last failure
    place: str  # The innermost frame of user code, as `module:function`
    traceback: str
    first_seen: float
    last_seen: float
    failures: int
    documents: int  # Different documents that have failed like this; events, if the service finishes none
    context: Mapping[str, Any] = field(default_factory=dict)  # Given with the last report that had one
    kinds: Mapping[str, int] = field(default_factory=dict)  # Failures of each kind: `permanent`, `timeout`, …
    versions: Mapping[str, int] = field(default_factory=dict)
    dependencies: Mapping[str, int] = field(default_factory=dict)
    library: str = ""  # The package that the last error came from
    # How many documents (events, if it finishes none) each version of the service has finished, until the first
    # failure, the last one, and now.
    succeeded_before: Mapping[str, int] = field(default_factory=dict)
    succeeded_at_last: Mapping[str, int] = field(default_factory=dict)
    succeeded_now: Mapping[str, int] = field(default_factory=dict)
    affected: int = 0  # Documents that have this as their last error now: unfinished or failed
    dead_letters: int = 0
    life: GroupLife = field(default_factory=GroupLife)  # What people have decided about it


@dataclass(frozen=True, slots=True)
class Successes:
    """The documents, or the events where it finishes none, that a version of a service has finished."""

    service: str
    version: str
    count: int
    first_at: float
    last_at: float


@dataclass(frozen=True, slots=True)
class DeadLetterGroup:
    service: str
    fingerprint: str
    dead_letters: int
    oldest: float
    newest: float
    example: int  # The row of one of these dead letters


class ScheduleResult(StrEnum):
    """The result of a request to try a document again."""

    SCHEDULED = "scheduled"  # It will be requeued at that time
    RESCHEDULED = "rescheduled"  # It was waiting already; its event now falls due at that time
    UNDER_WAY = "under way"  # A worker has claimed it
    PROCESSED = "processed"  # It is finished. Only a reset tries it again
    MISSING = "missing"
    NO_SERVICE = "no service"  # No service finishes documents of its collection
    CANCELLED = "cancelled"
    NOT_SCHEDULED = "not scheduled"


@dataclass(frozen=True, slots=True)
class LoggedAction:
    """Something that a person has changed: who, when, what, and how many documents or rows."""

    id: int
    at: float
    who: str
    via: str  # `cli`, `console` or `api`
    action: str
    about: dict[str, Any]
    touched: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An event on the ledger for one service, without its data."""

    id: int
    service: str
    state: str
    event_type: str
    event_id: str
    published_at: float
    round: int
    due: float
    tries: int
    not_ready: int
    deaths: int
    lease: float | None
    worker: str | None
    reason: str | None
    settled_at: float | None
    documents: int
    serial_key: str | None = None  # Its service runs one row at a time with this key
    first_due: float | None = None  # When it was due first, if it has a key

    @property
    def waits_for_key(self) -> bool:
        """Whether it waits until another row with its key is settled, whatever the time."""
        return self.state == RowState.WAITING and self.due >= PARKED_DUE


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The number of rows that a service has in the ledger, by state."""

    service: str
    waiting: int
    claimed: int
    dead: int
    oldest_due: float | None  # The due time of the oldest event that is due


@dataclass(frozen=True, slots=True)
class WorkerClaims:
    """The events of a service that a worker has claimed."""

    worker: str
    service: str
    events: int
    documents: int  # How many documents these events name; 0 for a service that finishes none
    until: float  # When the first lease lapses, unless it is renewed
    examples: tuple[DocumentKey, ...]  # The first document of a few of them
