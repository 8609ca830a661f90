"""Requeues or discards a whole failure group."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.ledger_views import ScheduleResult
from onward.recovery.requeue_dead_letters import (
    CanaryOutcome,
    CanaryProgress,
    DeadLetterFilter,
    Refusal,
    Requeue,
    RequeueResult,
    matching_dead_letters,
    refusal,
    service_names,
)

if TYPE_CHECKING:
    from onward.ledger.store import Store

PAGE = 500
_OVER = (Status.PROCESSED, Status.DISCARDED)


@dataclass(frozen=True, slots=True)
class GroupRetryPlan:
    """The dead letters and documents that a retry of a group would requeue."""

    dead_letters: list[int]  # rows of those that can be requeued
    refused: list[Refusal]
    documents: list[DocumentKey]  # those that none of these dead letters is about
    recovered: int = 0  # dead letters that are skipped: their documents have recovered, or are being tried


@dataclass(slots=True)
class GroupRetryResult:
    """The result of a retry of a group so far."""

    dead_letters: RequeueResult = field(default_factory=RequeueResult)
    documents: Counter[ScheduleResult] = field(default_factory=Counter)
    held_back: int = 0  # documents that are left alone until the canary has passed

    @property
    def touched(self) -> int:
        scheduled = self.documents[ScheduleResult.SCHEDULED] + self.documents[ScheduleResult.RESCHEDULED]
        return self.dead_letters.requeued + scheduled

    @property
    def complete(self) -> bool:
        return not (self.dead_letters.refused or self.dead_letters.left_untouched or self.held_back)


@dataclass(frozen=True, slots=True)
class GroupDiscarded:
    """The number of documents and dead letters of a group that were discarded."""

    documents: int
    dead_letters: int  # those that were archived; that of a discarded document ends with it


def affected(
    store: Store, fingerprint: str, after: DocumentKey = ("", ""), *, at_once: int = PAGE
) -> Iterator[DocumentState]:
    """Yield the unfinished documents whose last error is of this group, after a given one, page by page."""
    while page := store.find_states(fingerprint=fingerprint, after=after, limit=at_once):
        after = (page[-1].collection, page[-1].id)
        yield from (state for state in page if state.status not in _OVER)


def plan_group_retry(store: Store, fingerprint: str) -> GroupRetryPlan:
    """Return what a retry of a group would requeue."""
    rows, refused, brought, recovered = list[int](), list[Refusal](), set[DocumentKey](), 0
    services = service_names(store)
    for dead_letter in matching_dead_letters(store, DeadLetterFilter(fingerprint=fingerprint)):
        if reason := refusal(dead_letter, services):
            refused.append(Refusal(dead_letter.row, reason))
        elif store.is_recovered(dead_letter):
            recovered += 1
        else:
            rows.append(dead_letter.row)
            brought.update(dead_letter.documents)
    keys = [(state.collection, state.id) for state in affected(store, fingerprint)]
    return GroupRetryPlan(rows, refused, [key for key in keys if key not in brought], recovered)


def retry_group(
    store: Store,
    fingerprint: str,
    result: GroupRetryResult,
    *,
    sleep: Callable[[float], None],
    rate: float | None = None,
    canary: int = 0,
    report: Callable[[RequeueResult], None] = lambda result: None,
    waiting: Callable[[CanaryProgress], None] = lambda waiting: None,
) -> None:
    """Requeue a group: its dead letters, then the documents that have none.

    If a canary fails, the rest is left alone. `result` is correct however this ends.
    """
    documents = plan_group_retry(store, fingerprint).documents
    found = matching_dead_letters(store, DeadLetterFilter(fingerprint=fingerprint))
    requeue = Requeue(store, found, sleep=sleep, rate=rate, canary=canary, report=report, waiting=waiting)
    result.dead_letters = requeue.result
    requeue.run()
    outcome = requeue.result.canary.outcome
    if outcome not in (CanaryOutcome.NONE, CanaryOutcome.PASSED):
        result.held_back = len(documents)
        return
    if canary and outcome is CanaryOutcome.NONE:
        # Without a dead letter to watch, only the first documents are retried: the operator checks them.
        documents, held = documents[:canary], documents[canary:]
        result.held_back = len(held)
    now = store.now()
    size = PAGE if rate is None else max(1, min(PAGE, int(rate)))
    for start in range(0, len(documents), size):
        at = now if rate is None else now + start / rate
        result.documents.update(store.schedule(documents[start : start + size], at).values())


def discard_documents(store: Store, keys: Sequence[DocumentKey]) -> int:
    """Discard documents in one transaction; return how many were changed."""
    return store.atomically(lambda: sum(store.discard(*key) for key in keys))


def discard_group(store: Store, fingerprint: str) -> GroupDiscarded:
    """Discard the documents of a group, and archive its dead letters that are about no document."""
    keys = [(state.collection, state.id) for state in affected(store, fingerprint)]
    documents = sum(discard_documents(store, keys[start : start + PAGE]) for start in range(0, len(keys), PAGE))
    found = matching_dead_letters(store, DeadLetterFilter(fingerprint=fingerprint))
    rows = [dead_letter.row for dead_letter in found]
    archived = sum(store.archive_dead_letters(rows[start : start + PAGE]) for start in range(0, len(rows), PAGE))
    return GroupDiscarded(documents, archived)
