"""What recovery works on: failure groups, actions of operators, and what became of a request."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """All failures with the same fingerprint, and what they have in common."""

    fingerprint: str
    service: str
    collection: str | None
    error_type: str
    message: str
    """Of the last one."""
    place: str
    """The innermost frame of user code, as `module:function`."""
    traceback: str
    first_seen: float
    last_seen: float
    failures: int
    documents: int
    """How many different ones have failed so; of a service that finishes none, how many events."""
    kinds: Mapping[str, int] = field(default_factory=dict)
    """How many failures of each kind: `permanent`, `unavailable`, `rate_limited`, `timeout`, `crash`, …"""
    versions: Mapping[str, int] = field(default_factory=dict)
    dependencies: Mapping[str, int] = field(default_factory=dict)
    processed_before: int = 0
    """How many documents of the collection were processed when the first one failed."""
    processed_now: int = 0
    affected: int = 0
    """How many documents have this as their last error now: unfinished or failed."""
    dead_letters: int = 0


@dataclass(frozen=True, slots=True)
class LetterGroup:
    """The dead letters of one service that failed alike."""

    service: str
    fingerprint: str
    letters: int
    oldest: float
    newest: float
    example: int
    """The row of one of them."""


class Scheduled(StrEnum):
    """What became of a request to try a document again."""

    SCHEDULED = "scheduled"
    """It will be put back at its time."""
    HURRIED = "hurried"
    """It was waiting already; its event falls due at that time now."""
    UNDER_WAY = "under way"
    """A worker has it just now."""
    PROCESSED = "processed"
    """It is finished: there is nothing to try again. With a reset, it is."""
    MISSING = "missing"
    NOBODYS = "nobody's"
    """No service finishes documents of its collection."""
    CANCELLED = "cancelled"
    NOT_SCHEDULED = "not scheduled"


@dataclass(frozen=True, slots=True)
class Action:
    """Something that a person changed: who, when, what, and how much of it."""

    id: int
    at: float
    who: str
    via: str
    """`cli` or `console`."""
    action: str
    about: dict[str, Any]
    touched: int


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """An event on the ledger for one service, as somebody who looks at it sees it."""

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
