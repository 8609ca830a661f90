"""How far a submitted source has come, in the words of the API; derived from the ledger, never stored."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onward.app import App
from onward.model.documents import DocumentState, Status
from onward.ops.lookup import worker_command
from onward.ops.queries.documents import FAILED as GIVEN_UP
from onward.ops.queries.ingestion_report import COLLECTIONS
from onward.ops.text.format import sentence_text
from onward.ops.text.next_step import next_step_sentence
from onward.pipeline.documents import source_id
from onward.recovery.history import kept_outcomes
from onward.recovery.next_step import NextStep, NextStepKind, NextSteps, describe_error, rounds_of
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

QUEUED, DONE, FAILED = "queued", "done", "failed"
FETCHING, PROCESSING = "fetching", "processing"
# The status of a pending document by its collection; in any other collection it is `processing`.
STAGES = {"archives": "extracting", "messages": "chunking", "chunks": "embedding", "threads": "indexing"}
CANCELLED = "cancelled by an operator"
MAX_PENDING_READ = 20  # at most this many unfinished documents of a collection are read: they stand for all
_RUNNING = (NextStepKind.WORKING, NextStepKind.SILENT)
_ENDED = (NextStepKind.PROCESSED, NextStepKind.FAILED, NextStepKind.GIVEN_UP, NextStepKind.DISCARDED)


@dataclass(frozen=True, slots=True)
class DocumentProgress:
    status: str
    tries: int = 0
    rounds: int = 0
    next_retry: float | None = None
    error: str = ""
    failed: int = 0  # of a source: how many of its documents were given up
    set_aside: int = 0
    documents: dict[str, dict[str, int]] = field(default_factory=dict)  # of a source: by collection and status


def stands_for_source(state: DocumentState) -> bool:
    return state.collection == "archives" and state.source is not None and state.id == source_id(state.source)


class ProgressReader:
    """Reads the progress of documents at one moment; what they share is read once."""

    def __init__(self, app: App) -> None:
        self._store = app.store
        self._steps = NextSteps(app.store, RetryJobRules.of(app.settings), start_worker=worker_command(app.store))

    def of(self, state: DocumentState) -> DocumentProgress:
        """Return the progress of a document; of one that stands for a source, that of the whole source."""
        if not stands_for_source(state):
            return self._own(state, self._steps.of(state), STAGES.get(state.collection, PROCESSING))
        own = self._own(state, self._steps.of(state), FETCHING)
        own = replace(own, documents=self._store.document_counts(state.source))
        return self._whole(state.source or "", own) if own.status == DONE else own

    def _own(self, state: DocumentState, step: NextStep, stage: str) -> DocumentProgress:
        total = state.attempts.get("total", 0)
        # That it was given up for good is stored as an outcome, but was no try.
        given_up = sum(entry.get("outcome") == "gave_up_for_good" for entry in kept_outcomes(state))
        tries = total - given_up if isinstance(total, int) else 0
        found = DocumentProgress(QUEUED, tries, rounds_of(state))
        if step.kind is NextStepKind.PROCESSED:
            return replace(found, status=DONE)
        error = describe_error(state.last_error)
        if step.kind in _RUNNING:
            return replace(found, status=stage, error=error)
        if step.kind in _ENDED:
            error = CANCELLED if step.kind is NextStepKind.DISCARDED else error or "no error is stored"
            return replace(found, status=FAILED, error=error, failed=1)
        if not error and step.kind is NextStepKind.OUTAGE:
            error = redact(sentence_text(next_step_sentence(step), step.now))
        return replace(found, next_retry=self._next_retry(step), error=error)

    def _next_retry(self, step: NextStep) -> float | None:
        if step.kind in (*_RUNNING, *_ENDED) or step.at is None or step.at <= self._steps.now:
            return None
        return step.at

    def _whole(self, source: str, own: DocumentProgress) -> DocumentProgress:
        """Return the progress of a source that was fetched: that of its first document that a worker runs."""
        from onward.pipeline.sources import SourceStatus

        set_aside = sum(len(batch.items) for batch in self._store.failed_batches(source))
        whole = SourceStatus(source, own.documents, set_aside)
        found = replace(own, failed=whole.failed, set_aside=set_aside)
        waiting: list[tuple[DocumentState, NextStep, str]] = []
        for collection, stage in STAGES.items():
            if not whole.count(collection, Status.PENDING):
                continue
            for state in self._store.states(
                collection, status=Status.PENDING, source=source, limit=MAX_PENDING_READ
            ):
                if collection == "threads" and state.row is None and not state.round:
                    continue  # it is requested when all that belongs to it is finished
                step = self._steps.of(state)
                due = step.kind is NextStepKind.DUE and (step.at or 0.0) <= self._steps.now
                if step.kind in _RUNNING or due:
                    return replace(found, status=stage, error=self._own(state, step, stage).error)
                waiting.append((state, step, stage))
        if waiting:
            # The details of one document only: to redact the errors of all takes longest.
            first = self._own(*min(waiting, key=lambda one: self._next_retry(one[1]) or float("inf")))
            documents = found.documents
            return replace(first, status=QUEUED, failed=whole.failed, set_aside=set_aside, documents=documents)
        if whole.pending:
            return replace(found, status=STAGES["threads"])
        status = FAILED if whole.status == "failed" else DONE
        return replace(found, status=status, error=self._first_error(source) if whole.failed else "")

    def _first_error(self, source: str) -> str:
        for collection in COLLECTIONS:
            for status in GIVEN_UP:
                for state in self._store.states(collection, status=status, source=source, limit=1):
                    return describe_error(state.last_error)
        return ""
