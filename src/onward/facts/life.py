"""How a document stands, what happens to it next, its life so far, and what it holds."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from onward.facts.finding import NotFound, worker_command
from onward.facts.wording import counted, iso
from onward.model.documents import FINAL
from onward.recovery.deciding import Rules
from onward.recovery.outlook import Outlook, Outlooks
from onward.recovery.phrasing import TimeInWords, at_time
from onward.recovery.story import Story, kept_outcomes, tell
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App, DocumentState
    from onward.pipeline.documents import Message

BLOCK = 1 << 20


def state_facts(state: DocumentState) -> dict[str, Any]:
    """A document's state for programs; what differs between two runs of the same stands under `times`."""
    last = state.last_error
    return {
        "collection": state.collection,
        "id": state.id,
        "status": state.status,
        "source": redact(state.source) if state.source else None,
        "parent": state.parent,
        "revision": state.revision,
        "rounds": state.attempt_count,
        "set_aside": state.failed_batch is not None,
        "error": _error_facts(last) if last else None,
        "times": {
            "created_at": time_fact(state.created_at),
            "updated_at": time_fact(state.updated_at),
            "last_attempt_time": time_fact(state.last_attempt_time),
            "retry_at": time_fact(state.retry_at),
        },
    }


def _error_facts(error: object) -> dict[str, str]:
    if isinstance(error, dict):
        return {"type": error.get("error_type", ""), "message": error.get("message", "")}
    return {"type": "", "message": redact(str(error))}  # others may write what they like


def time_fact(at: object) -> str | None:
    """A time that others may have written as they like."""
    return iso(at) if isinstance(at, int | float) else str(at) if at else None


def story_of(app: App, collection: str, id: str) -> Story:
    """All that has happened to a document."""
    story = tell(app.store, collection, id)
    if story is None:
        raise NotFound(f"{collection}/{id} is gone")
    return story


def outlook_of(app: App, state: DocumentState, *, in_words: TimeInWords = at_time) -> Outlook:
    """What happens to a document next."""
    outlooks = Outlooks(app.store, Rules.of(app.settings), worker=worker_command(app.store), in_words=in_words)
    return outlooks.of(state, holdup=_holdup(app, state) if state.collection == "threads" else "")


def _holdup(app: App, state: DocumentState) -> str:
    """What of a thread is still to be finished before it can be summarised."""
    if state.final or state.row is not None:
        return ""
    found = app.store.find("messages", "thread_id", [state.id])
    open_messages = sum(one.status not in FINAL and not one.set_aside for one in found)
    if open_messages:
        return f"{counted(open_messages, 'message')} {'is' if open_messages == 1 else 'are'} still to be finished"
    chunks = sum(
        status_count
        for message in found
        for status, status_count in app.store.children_counts("messages", message.id).get("chunks", {}).items()
        if status not in FINAL
    )
    return f"{counted(chunks, 'chunk')} {'is' if chunks == 1 else 'are'} still to be finished" if chunks else ""


def next_facts(outlook: Outlook) -> dict[str, Any]:
    """What happens next, for programs."""
    return outlook.as_dict() | {"at": iso(outlook.at)}


def life_facts(story: Story) -> dict[str, Any]:
    """A document's life, for programs."""
    letter, batch, row = story.dead_letter, story.batch, story.row
    return {
        "moments": [one.as_dict() | {"at": time_fact(one.at)} for one in story.moments],
        "not_kept": story.not_kept,
        "row": None
        if row is None
        else asdict(row)
        | {name: iso(getattr(row, name)) for name in ("published_at", "due", "lease", "settled_at")},
        "dead_letter": None
        if letter is None
        else {
            "row": letter.row,
            "failed_queue": letter.failed_queue,
            "reason": letter.abandoned_reason,
            "tries": letter.attempt_count,
            "at": iso(letter.timestamp),
        },
        "failed_batch": None
        if batch is None
        else {
            "id": batch.id,
            "retries": batch.retry_count,
            "retried_at": iso(batch.retry_after),
            "documents": len(batch.items),
        },
        "parent": story.parent,
        "children": {name: dict(counts) for name, counts in story.children.items()},
    }


def document_facts(app: App, collection: str, id: str) -> dict[str, Any]:
    """Everything that is known of a document, for programs."""
    story = story_of(app, collection, id)
    facts = state_facts(story.state) | {
        "next": next_facts(outlook_of(app, story.state)),
        "life": life_facts(story),
        "outcomes": kept_outcomes(story.state),
        "body": body_of(app, collection, id),
    }
    if collection == "threads":
        from onward.pipeline.documents import Summary

        summary = app.get(Summary, id)
        facts["summary"] = summary.model_dump(mode="json") if summary else None
        facts["message_ids"] = [one.id for one in messages_of_thread(app, id)]
    return facts


def body_of(app: App, collection: str, id: str) -> dict[str, Any]:
    """What a document holds."""
    ((_, _, body),) = app.store.read_bodies(collection, [id])
    read: dict[str, Any] = json.loads(body)
    return read


def messages_of_thread(app: App, thread: str) -> list[Message]:
    """The messages of a thread, the oldest first."""
    from onward.pipeline.documents import Message

    ids = sorted(one.id for one in app.store.find(Message, "thread_id", [thread]))
    messages = app.store.get_many(Message, ids)
    return sorted(messages, key=lambda one: (one.date or 0.0, one.offset, one.id))


def original_of(app: App, collection: str, id: str) -> Iterator[bytes]:
    """The bytes of a message or archive, as they were fetched, piece by piece."""
    from onward.pipeline.documents import Archive, Message
    from onward.pipeline.services.parsing import find_original

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
        left = length
        while left is None or left > 0:
            block = stream.read(BLOCK if left is None else min(left, BLOCK))
            if not block:
                return
            left = None if left is None else left - len(block)
            yield block
