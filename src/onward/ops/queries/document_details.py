"""All facts about one document: state, next step, history, progress, content and original bytes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from onward.app import App
from onward.model.documents import FINAL, DocumentState, Status
from onward.model.failures import NO_TRY
from onward.model.ledger import RowState
from onward.model.ledger_views import LedgerRow
from onward.ops.bad_input import NotFound
from onward.ops.lookup import read_bodies, worker_command
from onward.ops.queries import documents
from onward.ops.queries.ingestion_report import (
    COLLECTIONS,
    SkippedFiles,
    archive_counts,
    read_damaged,
    report_of,
    without_text_facts,
)
from onward.ops.text.format import TimeFormat, iso, local_time, sentence_text
from onward.ops.text.history import next_step_command, next_step_sentence, outcome_text
from onward.pipeline.documents import Archive, Message, Summary, source_id
from onward.recovery.history import DocumentHistory, HistoryEntry, has_expired, kept_outcomes, read_history
from onward.recovery.next_step import NextStep, NextStepKind, NextSteps, Unfinished, describe_error, rounds_of
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

BLOCK = 1 << 20
QUEUED, DONE, FAILED = "queued", "done", "failed"
FETCHING, PROCESSING = "fetching", "processing"
# The status of a pending document by its collection; in any other collection it is `processing`.
STAGES = {"archives": "extracting", "messages": "chunking", "chunks": "embedding", "threads": "indexing"}
CANCELLED = "cancelled by an operator"
EXPIRED = "its deadline passed before a try"
MAX_PENDING_READ = 20  # at most this many unfinished documents of a collection are read: they stand for all
_RUNNING = (NextStepKind.WORKING, NextStepKind.SILENT)
_ENDED = (NextStepKind.PROCESSED, NextStepKind.FAILED, NextStepKind.GIVEN_UP, NextStepKind.DISCARDED)
MAX_MESSAGE_IDS = 1_000  # messages of a thread that are named; `message_count` says how many there are


# The fields of a document's state that others rely on, as JSON Schemas; a stored document need not have them.
_TIME = {"type": "string", "format": "date-time"}
_TIME_OR_NULL = {"anyOf": [_TIME, {"type": "null"}]}
_TEXT = {"type": "string"}
_ERROR = {"type": "object", "properties": {"error_type": _TEXT, "message": _TEXT}}
STATE_SCHEMAS: dict[str, dict[str, Any]] = {
    "status": {"type": "string", "enum": [str(status) for status in Status]},
    "attemptCount": {"type": "integer", "minimum": 0, "default": 0},
    "lastAttemptTime": _TIME_OR_NULL | {"default": None},
    "lastError": {"anyOf": [_ERROR, {"type": "null"}], "default": None},
    "createdAt": _TIME_OR_NULL,
    "updatedAt": _TIME_OR_NULL,
}
# The field of a pipeline's document that is a time, and one that documents of another app are unlikely to have.
_TIMES_IN_BODIES = {"messages": ("date", "archive_id"), "tasks": ("submitted_at", "submission")}
EMBEDDED = "embedding_generated"  # of a chunk: whether its vector is stored
TIMES = {
    "createdAt": "created_at",
    "updatedAt": "updated_at",
    "lastAttemptTime": "last_attempt_time",
    "retryAt": "retry_at",
}  # the fields that differ between two runs


def state_facts(state: DocumentState) -> dict[str, Any]:
    """Return a document's state for programs."""
    facts = {
        "collection": state.collection,
        "id": state.id,
        "status": state.status,
        "source": redact(state.source) if state.source else None,
        "parent": state.parent,
        "revision": state.revision,
        "set_aside": state.failed_batch is not None,
        "attemptCount": rounds_of(state),
        "lastError": _error_facts(state.last_error) if state.last_error else None,
    }
    if state.collection == "chunks":
        facts[EMBEDDED] = state.status == Status.PROCESSED
    return facts | {name: time_fact(getattr(state, field)) for name, field in TIMES.items()}


def _error_facts(error: object) -> dict[str, str]:
    """Return an error without secrets; another program may have stored anything."""
    found = error if isinstance(error, dict) else {"message": error}
    return {name: redact(str(found.get(name, ""))) for name in ("error_type", "message")}


def time_fact(at: object) -> str | None:
    """Return a time for programs; another program may have stored something else there."""
    return iso(at) if isinstance(at, int | float) else str(at) if at else None


def history_of(app: App, collection: str, id: str) -> DocumentHistory:
    history = read_history(app.store, collection, id)
    if history is None:
        raise NotFound(f"{collection}/{id} is gone")
    return history


def next_step_of(app: App, state: DocumentState) -> NextStep:
    return next_steps_of(app, [state])[0]


def next_steps_of(app: App, states: Iterable[DocumentState]) -> list[NextStep]:
    steps = _next_steps(app)
    return [
        steps.of(state, unfinished=_unfinished(app, state) if state.collection == "threads" else None)
        for state in states
    ]


def _next_steps(app: App) -> NextSteps:
    return NextSteps(
        app.store,
        RetryJobRules.of(app.settings, app.store.subscriptions()),
        start_worker=worker_command(app.store),
    )


def _unfinished(app: App, state: DocumentState) -> Unfinished | None:
    """Return what of a thread is not finished yet, so that it cannot be summarised."""
    if state.final or state.row is not None:
        return None
    counts = app.store.value_counts("messages", "thread_id", [state.id]).get(state.id, {})
    if messages := sum(count for status, count in counts.items() if status not in FINAL):
        return Unfinished(messages, "messages")
    chunks = 0
    for page in app.store.find_pages("messages", "thread_id", state.id, beside="date"):
        unprocessed = app.store.children("chunks", "messages", [one.id for one, _ in page], unlike="processed")
        chunks += sum(one.status not in FINAL for one in unprocessed)
    return Unfinished(chunks, "chunks") if chunks else None


def next_facts(step: NextStep, time_format: TimeFormat = local_time) -> dict[str, Any]:
    row, breaker, batch = step.row, step.breaker, step.batch
    facts: dict[str, Any] = {
        "kind": str(step.kind),
        "text": sentence_text(next_step_sentence(step), step.now, time_format),
        "command": next_step_command(step),
    }
    if row is not None and row.state == RowState.CLAIMED:
        facts |= {"service": row.service, "worker": row.worker, "try": row.tries + 1}
    elif row is not None:
        facts |= {"service": row.service, "round": row.round, "tries": row.tries, "deaths": row.deaths}
    if breaker is not None:
        facts["dependency"] = breaker.dependency
    if batch is not None:
        facts |= {"batch": batch.id, "retry": batch.retry_count + 1}
    if step.problems:
        facts["problems"] = list(step.problems)
    return facts | {"at": iso(step.at)}


def _due(row: LedgerRow) -> dict[str, Any]:
    """Return when a row is due; one that waits for its key has no such time."""
    waits = row.waits_for_key
    return {"due": None if waits else iso(row.due), "first_due": iso(row.first_due), "waits_for_key": waits}


def history_facts(history: DocumentHistory) -> dict[str, Any]:
    def moment(entry: HistoryEntry) -> dict[str, Any]:
        facts = {name: value for name, value in asdict(entry).items() if value not in ("", 0, None)}
        decided = {"decided": outcome_text(entry.outcome)} if entry.outcome else {}
        return facts | decided | {"at": time_fact(entry.at)}

    letter, batch, row = history.dead_letter, history.batch, history.row
    times = ("published_at", "due", "lease", "settled_at")
    return {
        "moments": [moment(entry) for entry in history.entries],
        "not_kept": history.not_kept,
        "row": None
        if row is None
        else asdict(row) | {name: iso(getattr(row, name)) for name in times} | _due(row),
        "dead_letter": letter
        and {
            "row": letter.row,
            "failed_queue": letter.failed_queue,
            "reason": letter.abandoned_reason,
            "tries": letter.attempt_count,
            "at": iso(letter.timestamp),
        },
        "failed_batch": batch
        and {
            "id": batch.id,
            "retries": batch.retry_count,
            "retried_at": iso(batch.retry_after),
            "documents": len(batch.items),
        },
        "parent": history.state.parent,
        "children": {name: dict(counts) for name, counts in history.children.items()},
    }


def awaiting_events(app: App, collection: str, id: str) -> list[str]:
    """Return the types of the events that wait until a document is final."""
    return [one.event_type for one in app.store.joins_of_document(collection, id)]


def document_facts(app: App, collection: str, id: str) -> dict[str, Any]:
    history = history_of(app, collection, id)
    facts = state_facts(history.state) | {
        "next": next_facts(next_step_of(app, history.state)),
        "life": history_facts(history),
        "outcomes": [one | {"at": time_fact(one.get("at"))} for one in kept_outcomes(history.state)],
        "body": body_facts(collection, body_of(app, collection, id)),
        "awaited_by": awaiting_events(app, collection, id),
    }
    if collection == "threads":
        summary = app.get(Summary, id)
        facts["summary"] = summary.model_dump(mode="json") if summary else None
        facts["message_count"] = thread_size(app, id)
        facts["message_ids"] = app.store.ordered_ids("messages", "thread_id", id, by="date", limit=MAX_MESSAGE_IDS)
    if collection == "messages" and (message := app.get(Message, id)) is not None and message.attachments:
        from onward.ops.queries.attachments import attachments_of

        facts["attachments"] = [one.as_dict() for one in attachments_of(app, [message])[message.id]]
    if collection == "archives":
        from onward.pipeline.sources import without_text

        archive = app.get(Archive, id)
        facts["counts"] = archive_counts(app, archive) if archive else {}
        if archive and archive.id == archive.source_id:
            facts["without_text"] = without_text_facts(without_text(app, archive.source))
            facts["damaged"] = read_damaged(app, archive.source).as_dict()
    if collection in ("archives", "tasks"):
        facts |= SkippedFiles.of(report_of(app, collection, id)).as_dict()
    return facts


def body_of(app: App, collection: str, id: str) -> dict[str, Any]:
    ((_, body),) = read_bodies(app.store, [(collection, id)])
    return dict(body)


def body_facts(collection: str, body: dict[str, Any]) -> dict[str, Any]:
    """Return a body for programs: the times that the pipeline stores in it as ISO 8601."""
    name, pipeline_field = _TIMES_IN_BODIES.get(collection, ("", ""))
    return body | {name: time_fact(body.get(name))} if pipeline_field in body else body


def thread_size(app: App, thread: str) -> int:
    return sum(app.store.value_counts("messages", "thread_id", [thread]).get(thread, {}).values())


def messages_of_thread(app: App, thread: str, *, start: int = 0, limit: int) -> list[Message]:
    """Read some messages of a thread, the oldest first; `start` leaves out the messages before it."""
    ids = app.store.ordered_ids(Message, "thread_id", thread, by="date", start=start, limit=limit)
    return app.store.get_many(Message, ids)


def original_of(app: App, collection: str, id: str) -> Iterator[bytes]:
    """Yield the bytes of a message or archive, as they were fetched, piece by piece."""
    from onward.pipeline.stages.parsing import find_original

    where: tuple[str, int, int | None] | None = None
    if collection == "messages" and (message := app.get(Message, id)) is not None:
        where = find_original(app, message)
    elif collection == "archives" and (archive := app.get(Archive, id)) is not None and archive.blob is not None:
        where = (archive.blob, 0, None)
    if where is None:
        raise NotFound(f"{collection}/{id} has no bytes of its own; messages and fetched archives have")
    return _read(app, *where)


def _read(app: App, digest: str, offset: int, length: int | None) -> Iterator[bytes]:
    with closing(app.blobs.open(digest)) as stream:
        stream.seek(offset)
        while block := stream.read(BLOCK if length is None else min(length, BLOCK)):
            length = None if length is None else length - len(block)
            yield block


# -- progress in the words of the API; derived from the ledger, never stored


@dataclass(frozen=True, slots=True)
class DocumentProgress:
    status: str
    tries: int = 0  # in all rounds
    rounds: int = 0
    attempts_made: int = 0  # tries of the current round
    next_retry: float | None = None
    error: str = ""
    failed: int = 0  # of a source: how many of its documents were given up
    set_aside: int = 0
    documents: dict[str, dict[str, int]] = field(default_factory=dict)  # of a source: by collection and status


def stands_for_source(state: DocumentState) -> bool:
    return state.collection == "archives" and state.source is not None and state.id == source_id(state.source)


def archive_kind(archive: Archive) -> str:
    """Return what an archive is, in words: its kind, or what it stands for."""
    if archive.kind != "source":
        return archive.kind
    return (
        "the request to fetch the source"
        if archive.id == archive.source_id
        else "an item that could not be fetched"
    )


class ProgressReader:
    """Reads the progress of documents at one moment; what they share is read once."""

    def __init__(self, app: App) -> None:
        self._store = app.store
        self._steps = _next_steps(app)

    def of(self, state: DocumentState) -> DocumentProgress:
        """Return the progress of a document; of one that stands for a source, that of the whole source."""
        if not stands_for_source(state):
            return self._own(state, self._steps.of(state), STAGES.get(state.collection, PROCESSING))
        own = self._own(state, self._steps.of(state), FETCHING)
        own = replace(own, documents=self._store.document_counts(state.source))
        return self._whole(state.source or "", own) if own.status == DONE else own

    def _own(self, state: DocumentState, step: NextStep, stage: str) -> DocumentProgress:
        total = state.attempts.get("total", 0)
        # That it was given up for good, or cancelled, is stored as an outcome, but was no try.
        kept = [entry for entry in kept_outcomes(state) if entry.get("outcome") not in NO_TRY]
        given_up = len(kept_outcomes(state)) - len(kept)
        tries = total - given_up if isinstance(total, int) else 0
        numbers = (entry.get("try") for entry in kept if entry.get("round") == state.round)
        failed = max((number for number in numbers if isinstance(number, int)), default=0)
        made = failed + (state.status == Status.PROCESSED)
        found = DocumentProgress(QUEUED, tries, rounds_of(state), made)
        if step.kind is NextStepKind.PROCESSED:
            return replace(found, status=DONE)
        error = describe_error(state.last_error)
        if step.kind in _RUNNING:
            return replace(found, status=stage, error=error)
        if step.kind in _ENDED:
            if step.kind is NextStepKind.DISCARDED:
                error = EXPIRED if has_expired(state) else CANCELLED
            error = error or "no error is stored"
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
            return replace(first, status=QUEUED, failed=whole.failed, set_aside=set_aside, documents=own.documents)
        if whole.pending:
            return replace(found, status=STAGES["threads"])
        status = FAILED if whole.status == "failed" else DONE
        return replace(found, status=status, error=self._first_error(source) if whole.failed else "")

    def _first_error(self, source: str) -> str:
        for collection in COLLECTIONS:
            for status in documents.FAILED:
                for state in self._store.states(collection, status=status, source=source, limit=1):
                    return describe_error(state.last_error)
        return ""
