"""The history of a document: everything that is stored of it, in order, and its live event."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from onward.model.documents import DocumentState
from onward.model.failures import Outcome, outcomes
from onward.model.ledger import DeadLetter, FailedBatch
from onward.model.ledger_views import LedgerRow

if TYPE_CHECKING:
    from onward.ledger.store import Store

FAILED_FOR_GOOD = "failed_for_good"  # the outcome of a round that was given up and made its document `failed`
_STORED_TEXTS = ("error_type", "message", "fingerprint", "worker", "version", "by")


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    """One thing that happened to a document, or the number of outcomes that are not stored any more."""

    what: str  # `created`, `outcome`, `event` or `not_kept`
    at: float | None = None
    round: int = 0
    attempt: int = 0  # the number of the try in its round
    # An `Outcome`, as stored, or `FAILED_FOR_GOOD`.
    outcome: str = ""
    error_type: str = ""
    message: str = ""
    fingerprint: str = ""
    worker: str = ""
    version: str = ""
    by: str = ""  # who has cancelled it
    event_type: str = ""
    service: str = ""
    count: int = 0  # how many outcomes are not stored


@dataclass(frozen=True, slots=True)
class DocumentHistory:
    state: DocumentState
    entries: tuple[HistoryEntry, ...]
    row: LedgerRow | None = None  # of its present round
    dead_letter: DeadLetter | None = None
    batch: FailedBatch | None = None
    children: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def not_kept(self) -> int:
        return sum(entry.count for entry in self.entries)


def read_history(store: Store, collection: str, id: str) -> DocumentHistory | None:
    """Return the history of a document; None: there is no such document."""
    # Not `store.state`: this call also reads fields that another program has filled in its own way.
    state = next(iter(store.states_of([(collection, id)])), None)
    if state is None:
        return None
    # The document knows the row of its dead letter, so rows before it need not be searched.
    row = state.dead_letter
    dead_letters = store.find_dead_letters(document=(collection, id), after=row - 1, limit=1) if row else []
    return DocumentHistory(
        state=state,
        entries=_entries(state, store.settled_rows_naming(collection, id)),
        row=store.ledger_row(state.row) if state.row is not None else None,
        dead_letter=next(iter(dead_letters), None),
        batch=store.failed_batch(state.failed_batch) if state.failed_batch is not None else None,
        children=store.children_counts(collection, id),
    )


def kept_outcomes(state: DocumentState) -> list[dict[str, Any]]:
    """Return the stored outcomes of a document, in order; another program may have stored something else there."""
    history = state.attempts
    return outcomes(history) if isinstance(history.get("first"), dict) and "last" in history else []


def has_expired(state: DocumentState) -> bool:
    """Return whether the deadline of a document was the last that happened to it."""
    return any(last.get("outcome") == Outcome.EXPIRED for last in kept_outcomes(state)[-1:])


def _entries(state: DocumentState, events: list[LedgerRow]) -> tuple[HistoryEntry, ...]:
    """Outcomes stay in the order in which they were stored, even where the clocks of workers disagree."""
    entries = [_outcome(state, outcome) for outcome in kept_outcomes(state)]
    gap = state.attempts.get("total", 0) - len(entries) if entries else 0
    if gap > 0:
        entries.insert(1, HistoryEntry("not_kept", count=gap))
    for row in events:
        event = HistoryEntry("event", row.settled_at, row.round, event_type=row.event_type, service=row.service)
        # The transaction that settles an event also stores its outcome: the event comes before it.
        settled = row.settled_at or 0.0
        later = (n for n, entry in enumerate(entries) if isinstance(entry.at, int | float) and entry.at >= settled)
        entries.insert(next(later, len(entries)), event)
    if state.created_at is not None:
        entries.insert(0, HistoryEntry("created", state.created_at))
    return tuple(entries)


def _outcome(state: DocumentState, stored: Mapping[str, Any]) -> HistoryEntry:
    outcome = str(stored.get("outcome", ""))
    if outcome == Outcome.GAVE_UP and stored.get("round", 0) == state.round and state.status == "failed":
        outcome = FAILED_FOR_GOOD
    number, attempt = int(stored.get("round") or 0), int(stored.get("try") or 0)
    texts: dict[str, Any] = {name: str(stored.get(name, "")) for name in _STORED_TEXTS}
    return HistoryEntry("outcome", stored.get("at"), number, attempt, outcome, **texts)
