"""Publishing from outside of a handler: events and the documents they name, and events of other programs."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.documents import Document
from onward.model.events import Envelope, Event, data_text, decode, is_text, new_id, read_event, storable_data
from onward.model.failures import Failure
from onward.model.ledger import KeptDocument, NewDocument, Published
from onward.retry import Malformed, OnwardError
from onward.runtime.tracing import published_trace, valid_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store

MAX_PRIORITY = 1_000_000
MAX_VERSION = 2**31
MAX_ID = 200


class PublishRefused(OnwardError, ValueError):
    """Something cannot be published as it was given; nothing was written."""


@dataclass(frozen=True, slots=True)
class ForeignMessage:
    """A message of another program."""

    raw: bytes
    message_id: str = ""
    properties: dict[str, Any] | None = None


def priority_problem(given: object) -> str:
    """Return what is wrong with a priority; empty: nothing."""
    if isinstance(given, int) and abs(given) <= MAX_PRIORITY:
        return ""
    return f"a priority is a whole number between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}, not {given!r:.100}"


def delay_problem(given: object) -> str:
    # An event that is due at infinity or NaN would never be claimed.
    if isinstance(given, int | float) and math.isfinite(given):
        return ""
    return f"a delay is a number of seconds, not {given!r:.100}"


def new_documents(documents: Sequence[Document], source: str | None, priority: int) -> list[NewDocument]:
    if problem := priority_problem(priority):
        raise PublishRefused(problem)
    return [
        NewDocument(one.collection, one.id, one.to_json(), source=source, priority=priority, keys=one.key_values())
        for one in documents
    ]


def publish(
    store: Store, events: list[Event], documents: list[Document], source: str | None, delay: float, priority: int
) -> list[Published]:
    """Put events on the ledger, in one transaction with their documents; see `onward.App.publish`."""
    if problem := priority_problem(priority) or delay_problem(delay):
        raise PublishRefused(problem)
    now, due_in = store.now(), max(0.0, delay)
    envelopes: list[Envelope] = []
    for event in events:
        trace = published_trace(event)
        envelopes += Envelope.of(event, now=now, source=source, priority=priority, due_in=due_in, trace=trace)

    def put() -> list[Published]:
        # New objects for each try: the store changes them, and a transaction may be repeated.
        new = new_documents(documents, source, priority)
        kept = _kept(store, new) if store.add_documents(new) < len(new) else ()
        published = store.publish(envelopes)
        return [replace(one, kept=kept) for one in published] if kept else published

    return store.atomically(put)


def _kept(store: Store, documents: Sequence[NewDocument]) -> tuple[KeptDocument, ...]:
    """Return which of these documents are stored with other content."""
    given: dict[str, dict[str, set[str]]] = {}
    for one in documents:
        given.setdefault(one.collection, {}).setdefault(one.id, set()).add(one.body)
    return tuple(
        KeptDocument(collection, id, revision)
        for collection, bodies in given.items()
        for id, revision, body in store.read_bodies(collection, list(bodies))
        if bodies[id] != {body}
    )


# -- events of other programs


def enter_foreign_event(
    store: Store, events: Iterable[type[Event]], raw: bytes, *, message_id: str = ""
) -> Published | None:
    """Put an event of another program on the ledger, once by its `event_id`, or by the id of its message.

    An event that cannot be read or stored becomes a dead letter with its bytes; then this returns None.
    """
    event_type = ""
    kinds = {kind.event_type: kind for kind in events}
    try:
        envelope = decode(raw)
        event_type = str(envelope["event_type"])
        kind = kinds.get(event_type)
        if kind is None:
            known = ", ".join(sorted(kinds)) or "none"
            raise Malformed(f"the event type {event_type!r} is unknown; known are: {known}")
        return store.publish([_envelope(kind, envelope, message_id, store.now())])[0]
    except (StoreUnavailable, StoreFull):
        raise
    except Exception as error:
        store.keep_malformed(raw, Failure.of(error, at=store.now(), service=""), event_type=event_type)
        return None


def enter_foreign_events(
    store: Store, events: Iterable[type[Event]], messages: Sequence[ForeignMessage]
) -> list[Published | None]:
    kinds = list(events)
    return [enter_foreign_event(store, kinds, one.raw, message_id=one.message_id) for one in messages]


def _envelope(kind: type[Event], envelope: dict[str, Any], message_id: str, now: float) -> Envelope:
    version = envelope.get("version", kind.version)
    if not isinstance(version, int) or not 0 < version < MAX_VERSION:
        raise Malformed(f"the field 'version' is {version!r:.50}, not a whole number from 1 on")
    data = data_text(envelope)
    if version <= kind.version:
        data = storable_data(read_event(kind, data))
    ids = (id for id in (envelope.get("event_id"), message_id) if is_text(id))
    given = next((id for id in ids if 0 < len(id) <= MAX_ID and "\x00" not in id), None)
    trace = valid_trace(envelope.get("trace"))
    return Envelope(kind.event_type, data, given or new_id(), now, version, trace, foreign=given is not None)
