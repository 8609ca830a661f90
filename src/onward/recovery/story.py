"""A document's story: everything that is kept of its life, in order, and what it waits on now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from onward.model.documents import DocumentState
from onward.model.failures import outcomes
from onward.model.ledger import DeadLetter, FailedBatch
from onward.model.recovery import LedgerRow
from onward.ports import Store

DECIDED = {
    "retried": "to be tried again",
    "gave_up": "round given up",
    "set_aside": "set aside",
    "processed": "processed",
}
"""What each kept outcome led to."""


@dataclass(frozen=True, slots=True)
class Moment:
    """One thing that happened to a document, or how many that are not kept."""

    what: str
    """`created`, `outcome`, `event` or `not_kept`."""
    at: float | None = None
    round: int = 0
    attempt: int = 0
    """Which try of the round it was."""
    decided: str = ""
    error_type: str = ""
    message: str = ""
    fingerprint: str = ""
    worker: str = ""
    version: str = ""
    event_type: str = ""
    service: str = ""
    count: int = 0
    """How many outcomes are not kept."""

    def as_dict(self) -> dict[str, Any]:
        return {name: value for name, value in asdict(self).items() if value not in ("", 0, None)}


@dataclass(frozen=True, slots=True)
class Story:
    """All that is known of one document."""

    state: DocumentState
    moments: tuple[Moment, ...]
    row: LedgerRow | None = None
    """The ledger row that carries its round now."""
    dead_letter: DeadLetter | None = None
    batch: FailedBatch | None = None
    parent: str | None = None
    children: Mapping[str, Mapping[str, int]] = field(default_factory=dict)

    @property
    def not_kept(self) -> int:
        """How many outcomes were forgotten."""
        return sum(one.count for one in self.moments)


def tell(store: Store, collection: str, id: str) -> Story | None:
    """Everything that is kept of a document's life; None: there is no such document."""
    # Not `state`: this way understands also what others have written into the fields.
    states = store.states_of([(collection, id)])
    if not states:
        return None
    (state,) = states
    # From its row on, which it knows: before that are only those of others.
    row = state.dead_letter
    letters = store.find_dead_letters(document=(collection, id), after=row - 1, limit=1) if row else []
    return Story(
        state=state,
        moments=_moments(state, store.rows_naming(collection, id)),
        row=store.row(state.row) if state.row is not None else None,
        dead_letter=next(iter(letters), None),
        batch=store.failed_batch(state.failed_batch) if state.failed_batch is not None else None,
        parent=state.parent,
        children=store.children_counts(collection, id),
    )


def kept_outcomes(state: DocumentState) -> list[dict[str, Any]]:
    """The outcomes that are kept of a document, in order; others may have written something else there."""
    history = state.attempts
    return outcomes(history) if isinstance(history.get("first"), dict) and "last" in history else []


def _moments(state: DocumentState, events: list[LedgerRow]) -> tuple[Moment, ...]:
    """Outcomes stay in the order they were kept in, even where clocks of workers disagree."""
    told = [_outcome(state, one) for one in kept_outcomes(state)]
    gap = state.attempts.get("total", 0) - len(told) if told else 0
    if gap > 0:
        told.insert(1, Moment("not_kept", count=gap))
    for row in events:
        moment = Moment("event", row.settled_at, row.round, event_type=row.event_type, service=row.service)
        # An event is settled in the transaction that keeps its outcome: it stands before it.
        settled = row.settled_at or 0.0
        later = (n for n, one in enumerate(told) if isinstance(one.at, int | float) and one.at >= settled)
        told.insert(next(later, len(told)), moment)
    if state.created_at is not None:
        told.insert(0, Moment("created", state.created_at))
    return tuple(told)


def _outcome(state: DocumentState, kept: Mapping[str, Any]) -> Moment:
    outcome = str(kept.get("outcome", ""))
    decided = DECIDED.get(outcome, outcome)
    if outcome == "gave_up" and kept.get("round", 0) == state.round and state.status == "failed":
        decided = "failed for good"
    return Moment(
        "outcome",
        kept.get("at"),
        int(kept.get("round") or 0),
        int(kept.get("try") or 0),
        decided,
        str(kept.get("error_type", "")),
        str(kept.get("message", "")),
        str(kept.get("fingerprint", "")),
        str(kept.get("worker", "")),
        str(kept.get("version", "")),
    )
