"""A whole failure group at once: put back, or given up for good."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from onward.model.documents import DocumentState, Status
from onward.model.recovery import Scheduled
from onward.ports import Key, Store
from onward.recovery.requeueing import (
    CanaryOutcome,
    LetterFilter,
    Refusal,
    Requeue,
    Requeued,
    Waiting,
    letters,
    refusal,
)

PAGE = 500
_OVER = (Status.PROCESSED, Status.DISCARDED)


@dataclass(frozen=True, slots=True)
class GroupPlan:
    """What belongs to a group now."""

    letters: list[int]
    """Rows of its dead letters that can go back."""
    refused: list[Refusal]
    documents: list[Key]
    """Its documents that none of these letters brings back."""
    recovered: int = 0
    """Dead letters that need not go back: they have recovered, or are being tried."""


@dataclass(slots=True)
class GroupRetry:
    """What became of putting a group back."""

    letters: Requeued = field(default_factory=Requeued)
    documents: Counter[Scheduled] = field(default_factory=Counter)
    held_back: int = 0
    """Documents that wait for what the canary shows."""

    @property
    def touched(self) -> int:
        return self.letters.requeued + sum(self.documents[one] for one in (Scheduled.SCHEDULED, Scheduled.HURRIED))

    @property
    def complete(self) -> bool:
        return not (self.letters.refused or self.letters.left_untouched or self.held_back)


@dataclass(frozen=True, slots=True)
class GroupDiscarded:
    """How much of a group was given up for good."""

    documents: int
    letters: int
    """Dead letters that were archived; that of a discarded document ends with it."""


def affected(
    store: Store, fingerprint: str, after: Key = ("", ""), *, at_once: int = PAGE
) -> Iterator[DocumentState]:
    """The documents whose last error is of this group, behind one of them, read page by page."""
    while page := store.find_states(fingerprint=fingerprint, after=after, limit=at_once):
        after = (page[-1].collection, page[-1].id)
        yield from (one for one in page if one.status not in _OVER)


def plan(store: Store, fingerprint: str) -> GroupPlan:
    """Look at what putting a group back would touch."""
    rows: list[int] = []
    refused: list[Refusal] = []
    brought: set[Key] = set()
    recovered = 0
    for letter in letters(store, LetterFilter(fingerprint=fingerprint)):
        if why := refusal(letter):
            refused.append(Refusal(letter.row, why))
        elif store.is_recovered(letter):
            recovered += 1
        else:
            rows.append(letter.row)
            brought.update(letter.documents)
    keys = [(one.collection, one.id) for one in affected(store, fingerprint)]
    return GroupPlan(rows, refused, [key for key in keys if key not in brought], recovered)


def put_back(
    store: Store,
    fingerprint: str,
    result: GroupRetry,
    *,
    sleep: Callable[[float], None],
    rate: float | None = None,
    canary: int = 0,
    report: Callable[[Requeued], None] = lambda result: None,
    waiting: Callable[[Waiting], None] = lambda waiting: None,
) -> None:
    """Put back a group: its dead letters, then the documents that have none.

    If a canary fails, the rest stays where it is. `result` is right however this ends.
    """
    documents = plan(store, fingerprint).documents
    found = letters(store, LetterFilter(fingerprint=fingerprint))
    requeue = Requeue(store, found, sleep=sleep, rate=rate, canary=canary, report=report, waiting=waiting)
    result.letters = requeue.result
    requeue.run()
    outcome = requeue.result.canary.outcome
    if outcome not in (CanaryOutcome.NONE, CanaryOutcome.PASSED):
        result.held_back = len(documents)
        return
    if canary and outcome is CanaryOutcome.NONE:
        # Without a letter to watch, the first documents go alone, and whoever asked looks how they do.
        documents, held = documents[:canary], documents[canary:]
        result.held_back = len(held)
    _schedule(store, documents, rate, result.documents)


def _schedule(store: Store, keys: Sequence[Key], rate: float | None, outcomes: Counter[Scheduled]) -> None:
    now = store.now()
    size = PAGE if rate is None else max(1, min(PAGE, int(rate)))
    for start in range(0, len(keys), size):
        at = now if rate is None else now + start / rate
        outcomes.update(store.schedule(keys[start : start + size], at).values())


def discard_all(store: Store, keys: Sequence[Key]) -> int:
    """Give up these documents, in one transaction; answer how many there were."""
    return store.atomically(lambda: sum(store.discard(*key) for key in keys))


def discard_group(store: Store, fingerprint: str) -> GroupDiscarded:
    """Give up what belongs to a group: its documents, and the events that are about none."""
    keys = [(one.collection, one.id) for one in affected(store, fingerprint)]
    documents = 0
    for start in range(0, len(keys), PAGE):
        documents += discard_all(store, keys[start : start + PAGE])
    rows = [one.row for one in letters(store, LetterFilter(fingerprint=fingerprint))]
    archived = sum(store.archive_letters(rows[start : start + PAGE]) for start in range(0, len(rows), PAGE))
    return GroupDiscarded(documents, archived)
