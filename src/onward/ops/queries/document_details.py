"""All facts about one document: state, next step, history, content and original bytes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import Any

from onward.app import App
from onward.model.documents import FINAL, DocumentState
from onward.model.ledger import RowState
from onward.ops.bad_input import NotFound
from onward.ops.lookup import read_bodies, worker_command
from onward.ops.queries.ingestion_report import SkippedFiles, archive_counts, report_of, without_text_facts
from onward.ops.text.format import TimeFormat, iso, local_time, sentence_text
from onward.ops.text.history import outcome_text
from onward.ops.text.next_step import next_step_command, next_step_sentence
from onward.pipeline.documents import Archive, Message, Summary
from onward.recovery.history import DocumentHistory, HistoryEntry, kept_outcomes, read_history
from onward.recovery.next_step import NextStep, NextSteps, Unfinished
from onward.recovery.retry_decision import RetryJobRules
from onward.retry.redact import redact

BLOCK = 1 << 20
MAX_MESSAGE_IDS = 1_000  # messages of a thread that are named; `message_count` says how many there are


def state_facts(state: DocumentState) -> dict[str, Any]:
    """Return a document's state for programs; what differs between two runs is under `times`."""
    times = ("created_at", "updated_at", "last_attempt_time", "retry_at")
    return {
        "collection": state.collection,
        "id": state.id,
        "status": state.status,
        "source": redact(state.source) if state.source else None,
        "parent": state.parent,
        "revision": state.revision,
        "rounds": state.attempt_count,
        "set_aside": state.failed_batch is not None,
        "error": _error_facts(state.last_error) if state.last_error else None,
        "times": {name: time_fact(getattr(state, name)) for name in times},
    }


def _error_facts(error: object) -> dict[str, str]:
    if isinstance(error, dict):
        return {"type": error.get("error_type", ""), "message": error.get("message", "")}
    return {"type": "", "message": redact(str(error))}  # another program may have stored anything


def time_fact(at: object) -> str | None:
    """Return a time for programs; another program may have stored something else there."""
    return iso(at) if isinstance(at, int | float) else str(at) if at else None


def history_of(app: App, collection: str, id: str) -> DocumentHistory:
    history = read_history(app.store, collection, id)
    if history is None:
        raise NotFound(f"{collection}/{id} is gone")
    return history


def next_step_of(app: App, state: DocumentState) -> NextStep:
    steps = NextSteps(app.store, RetryJobRules.of(app.settings), start_worker=worker_command(app.store))
    return steps.of(state, unfinished=_unfinished(app, state) if state.collection == "threads" else None)


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
        "row": None if row is None else asdict(row) | {name: iso(getattr(row, name)) for name in times},
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
        "parent": history.parent,
        "children": {name: dict(counts) for name, counts in history.children.items()},
    }


def document_facts(app: App, collection: str, id: str) -> dict[str, Any]:
    history = history_of(app, collection, id)
    facts = state_facts(history.state) | {
        "next": next_facts(next_step_of(app, history.state)),
        "life": history_facts(history),
        "outcomes": kept_outcomes(history.state),
        "body": body_of(app, collection, id),
    }
    if collection == "threads":
        summary = app.get(Summary, id)
        facts["summary"] = summary.model_dump(mode="json") if summary else None
        facts["message_count"] = thread_size(app, id)
        facts["message_ids"] = app.store.ordered_ids("messages", "thread_id", id, by="date", limit=MAX_MESSAGE_IDS)
    if collection == "archives":
        from onward.pipeline.sources import without_text

        archive = app.get(Archive, id)
        facts["counts"] = archive_counts(app, archive) if archive else {}
        if archive and archive.id == archive.source_id:
            facts["without_text"] = without_text_facts(without_text(app, archive.source))
    if collection in ("archives", "tasks"):
        facts |= SkippedFiles.of(report_of(app, collection, id)).as_dict()
    return facts


def body_of(app: App, collection: str, id: str) -> dict[str, Any]:
    ((_, body),) = read_bodies(app.store, [(collection, id)])
    return dict(body)


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
