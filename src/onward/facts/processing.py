"""How far a submitted source has come, in the words of the API; derived from the ledger, never stored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from onward.facts.accounting import COLLECTIONS, error_of
from onward.facts.finding import worker_command
from onward.model.documents import Status
from onward.recovery.deciding import Rules
from onward.recovery.outlook import Outlook, Outlooks, rounds_of
from onward.recovery.story import kept_outcomes
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState

QUEUED, DONE, FAILED = "queued", "done", "failed"
FETCHING, PROCESSING = "fetching", "processing"
STAGES = {"archives": "extracting", "messages": "chunking", "chunks": "embedding", "threads": "indexing"}
"""What is being done to a pending document of a collection; to one of somebody's own app: `processing`."""
STATUSES = (QUEUED, FETCHING, *STAGES.values(), PROCESSING, DONE, FAILED)
CANCELLED = "cancelled by hand"
LOOKED_AT = 20
"""Of the unfinished documents of a collection so many are looked at: they stand for all."""
_AT_WORK = ("working", "silent")
_ENDED = ("processed", "failed", "given_up", "discarded")
"""Outlooks of documents that are not waiting for a try."""
_GIVEN_UP = (Status.FAILED, Status.FAILED_MAX_RETRIES)


@dataclass(frozen=True, slots=True)
class Processing:
    """Where a document stands."""

    status: str
    tries: int = 0
    rounds: int = 0
    next_retry: float | None = None
    error: str = ""
    failed: int = 0
    """Of a source: how many of its documents were given up."""
    set_aside: int = 0
    documents: dict[str, dict[str, int]] = field(default_factory=dict)
    """Of a source: how many it has of each collection, by status."""

    @property
    def final(self) -> bool:
        return self.status in (DONE, FAILED)


def stands_for_source(state: DocumentState) -> bool:
    """Whether a document is what was submitted: the request to ingest a source."""
    from onward.pipeline.documents import source_id

    return state.collection == "archives" and state.source is not None and state.id == source_id(state.source)


def _tries(state: DocumentState) -> int:
    """How often a document was tried; that it was given up for good is kept, too, but was no try."""
    total = state.attempts.get("total", 0)
    given_up = sum(one.get("outcome") == "gave_up_for_good" for one in kept_outcomes(state))
    return total - given_up if isinstance(total, int) else 0


class Looking:
    """Tells where documents stand, at one moment; what they share is read once."""

    def __init__(self, app: App) -> None:
        self._store = app.store
        self._outlooks = Outlooks(app.store, Rules.of(app.settings), worker=worker_command(app.store))

    def at(self, state: DocumentState) -> Processing:
        """Where a document stands; one that stands for a source, where all of that source does."""
        if not stands_for_source(state):
            return self._own(state, STAGES.get(state.collection, PROCESSING))
        own = self._own(state, FETCHING)
        counts = self._store.document_counts(state.source)
        if own.status != DONE:
            return replace(own, documents=counts)
        return self._whole(state.source or "", own, counts)

    def next(self, state: DocumentState) -> Outlook:
        """What happens to a document next."""
        return self._outlooks.of(state)

    def _own(self, state: DocumentState, stage: str) -> Processing:
        return self._told(state, self._outlooks.of(state), stage)

    def _told(self, state: DocumentState, outlook: Outlook, stage: str) -> Processing:
        found = Processing(QUEUED, _tries(state), rounds_of(state))
        match outlook.kind:
            case "processed":
                return replace(found, status=DONE)
            case "working" | "silent":
                return replace(found, status=stage, error=error_of(state))
            case "failed" | "given_up" | "discarded":
                error = CANCELLED if outlook.kind == "discarded" else error_of(state) or "no error is kept"
                return replace(found, status=FAILED, error=error, failed=1)
        error = error_of(state) or (redact(outlook.text) if outlook.kind == "outage" else "")
        return replace(found, next_retry=self._next_retry(outlook), error=error)

    def _next_retry(self, outlook: Outlook) -> float | None:
        if outlook.kind in (*_AT_WORK, *_ENDED) or outlook.at is None or outlook.at <= self._outlooks.now:
            return None
        return outlook.at

    def _whole(self, source: str, own: Processing, counts: dict[str, dict[str, int]]) -> Processing:
        """A source that was fetched: the first of its documents that somebody works at says where it is."""
        from onward.pipeline.sources import SourceStatus

        set_aside = sum(len(one.items) for one in self._store.failed_batches(source))
        standing = SourceStatus(source, counts, set_aside)
        found = replace(own, failed=standing.failed, set_aside=set_aside, documents=counts)
        waiting: list[tuple[DocumentState, Outlook, str]] = []
        for collection, stage in STAGES.items():
            if not standing.count(collection, Status.PENDING):
                continue
            for state in self._store.states(collection, status=Status.PENDING, source=source, limit=LOOKED_AT):
                if collection == "threads" and state.row is None and not state.round:
                    continue  # it is asked for when all that belongs to it is finished
                outlook = self._outlooks.of(state)
                if outlook.kind in _AT_WORK or self._is_due(outlook):
                    return replace(found, status=stage, error=self._told(state, outlook, stage).error)
                waiting.append((state, outlook, stage))
        if waiting:
            # Only of that one is more told: to look for secrets in the errors of all would take longest.
            first = self._told(*min(waiting, key=lambda one: self._next_retry(one[1]) or float("inf")))
            return replace(
                found,
                status=QUEUED,
                next_retry=first.next_retry,
                error=first.error,
                tries=first.tries,
                rounds=first.rounds,
            )
        if standing.pending:
            return replace(found, status=STAGES["threads"])
        status = FAILED if standing.status == "failed" else DONE
        return replace(found, status=status, error=self._first_error(source) if standing.failed else "")

    def _is_due(self, outlook: Outlook) -> bool:
        """Whether a worker that is alive takes it next."""
        return outlook.kind == "due" and (outlook.at or 0.0) <= self._outlooks.now

    def _first_error(self, source: str) -> str:
        for collection in COLLECTIONS:
            for status in _GIVEN_UP:
                for state in self._store.states(collection, status=status, source=source, limit=1):
                    return error_of(state)
        return ""
