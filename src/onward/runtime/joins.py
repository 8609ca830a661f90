"""Waiting for many documents: the join of `work.when_all` and `app.when_all`, checked before it is stored."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from onward.model.documents import Document, DocumentKey
from onward.model.events import Envelope, Event, idempotency_key
from onward.model.joins import Joined, NewJoin
from onward.runtime.publish_options import PublishRefused
from onward.runtime.tracing import published_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.task_call import TaskCall

    Waitable: TypeAlias = Document | TaskCall[Any]


def when_all(
    store: Store, documents: Iterable[Waitable], then: Event, *, allow_failed: bool, source: str | None
) -> None:
    """Publish an event when all documents are final; see `onward.App.when_all`."""
    keys = member_keys(documents)
    join = new_join(keys, then, allow_failed, now=store.now(), source=source)
    join.then.trace = published_trace(then)
    store.open_join(join)


def member_keys(documents: Iterable[Waitable]) -> list[DocumentKey]:
    """Return collection and id of documents and calls of tasks, each once, or raise `PublishRefused`."""
    given: object = documents
    if isinstance(given, Document | str) or not isinstance(given, Iterable):
        raise PublishRefused(f"when_all takes a list of documents or calls of tasks, not {_shown(documents)}")
    return list(dict.fromkeys(map(_key, documents)))


def _key(one: Waitable) -> DocumentKey:
    if isinstance(one, Document):
        return one.collection, one.id
    from onward.runtime.task_call import TaskCall  # not at the top: tasks are made of works

    if isinstance(one, TaskCall):
        return one.task.call_document.collection, one.id
    raise PublishRefused(f"when_all waits for documents and calls of tasks, not for {_shown(one)}")


def new_join(
    keys: list[DocumentKey],
    then: Event,
    allow_failed: bool,
    *,
    now: float,
    trace: str | None = None,
    source: str | None = None,
) -> NewJoin:
    """Return the join of these documents, or raise why the event cannot be published."""
    if not isinstance(then, Event):
        raise PublishRefused(f"when_all publishes an event: then= is {_shown(then)}; give an instance of an Event")
    envelopes = Envelope.of(then, now=now, source=source, trace=trace)
    if len(envelopes) > 1:
        raise PublishRefused(
            f"when_all publishes one event, and {then.event_type} names more documents than one event may; "
            "name what they have in common"
        )
    key = idempotency_key(then.event_type, envelopes[0].data, naming=then.naming)
    return NewJoin(key, envelopes[0], keys, bool(allow_failed), _joined_field(type(then)))


def _joined_field(event: type[Event]) -> str | None:
    """Return the field of an event that says how the documents ended, if it has one."""
    return next(
        (
            name
            for name, info in event.model_fields.items()
            if Joined in (info.annotation, *get_args(info.annotation))
        ),
        None,
    )


def _shown(given: object) -> str:
    return f"{given!r:.100} ({type(given).__name__})"
