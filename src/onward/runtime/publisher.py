"""Publishing from outside of a handler: events and the documents they name, and events of other programs."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from pydantic_core import from_json, to_json

from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.documents import Document
from onward.model.events import (
    Envelope,
    Event,
    data_text,
    decode,
    decoded_object,
    is_text,
    new_id,
    read_event,
    storable_data,
)
from onward.model.failures import Failure
from onward.model.ledger import KeptDocument, NewDocument, Published
from onward.retry import Malformed
from onward.retry.iso_time import iso_time, read_time
from onward.runtime.app_import import warn_of_publishing
from onward.runtime.publish_options import PublishOptions
from onward.runtime.tracing import published_trace, valid_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store

MAX_VERSION = 2**31
MAX_ID = 200
# The fields of an envelope. What another Onward knows of its own round of the event is not used here.
ENVELOPE_FIELDS = frozenset(
    ("event_type", "event_id", "timestamp", "version", "data", "trace", "round", "attempt", "idempotency_key")
)
_VERSION = re.compile(r"v?(\d{1,10})(?:\.\d{1,10}){0,3}", re.ASCII)


def new_documents(documents: Sequence[Document], options: PublishOptions) -> list[NewDocument]:
    source, priority = options.source, options.priority
    return [
        NewDocument(one.collection, one.id, one.to_json(), source=source, priority=priority, keys=one.key_values())
        for one in documents
    ]


def new_envelopes(events: Sequence[Event], options: PublishOptions, *, now: float) -> list[Envelope]:
    warn_of_publishing(events)
    envelopes: list[Envelope] = []
    for event in events:
        envelopes += Envelope.of(
            event,
            now=now,
            source=options.source,
            priority=options.priority,
            due_in=max(0.0, options.due_in),
            trace=published_trace(event),
            expires_in=options.expires_in,
        )
    return envelopes


def publish(
    store: Store, events: list[Event], documents: list[Document], options: PublishOptions
) -> list[Published]:
    """Put events on the ledger, in one transaction with their documents; see `onward.App.publish`."""
    envelopes = new_envelopes(events, options, now=store.now())

    def put() -> list[Published]:
        # New objects for each try: the store changes them, and a transaction may be repeated.
        new = new_documents(documents, options)
        added, published = store.publish_with_documents(new, envelopes)
        kept = kept_documents(store, new) if added < len(new) else ()
        return [replace(one, kept=kept) for one in published] if kept else published

    return store.atomically(put)


def kept_documents(store: Store, documents: Sequence[NewDocument]) -> tuple[KeptDocument, ...]:
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


@dataclass(frozen=True, slots=True)
class ForeignMessage:
    """A message of another program: its bytes, and what its transport says about it."""

    raw: bytes
    message_id: str = ""  # The id of the event, if the message itself has none
    properties: dict[str, Any] | None = None  # Content type, headers, routing key and the like


def enter_foreign_events(
    store: Store, events: Iterable[type[Event]], messages: Sequence[ForeignMessage]
) -> list[Published | None]:
    """Put events of other programs on the ledger, each once by its `event_id`, or by the id of its message.

    This is one transaction. A message that cannot be read or stored becomes a dead letter with its bytes and
    properties; then its result is None.
    """
    kinds = {kind.event_type: kind for kind in events}
    now = store.now()
    read = [_read_or_reason(kinds, message, now) for message in messages]

    def enter() -> list[Published | None]:
        published = iter(store.publish([one for one in read if isinstance(one, Envelope)]))
        results: list[Published | None] = []
        for message, one in zip(messages, read, strict=True):
            if isinstance(one, Envelope):
                results.append(next(published))
            else:
                keep_malformed(store, message, one)
                results.append(None)
        return results

    try:
        return store.atomically(enter)
    except (StoreUnavailable, StoreFull):
        raise
    except Exception as error:
        if len(messages) > 1:  # only the one that cannot be stored becomes a dead letter
            return [one for message in messages for one in enter_foreign_events(store, kinds.values(), [message])]
        keep_malformed(store, messages[0], error)
        return [None]


def _read_or_reason(
    kinds: Mapping[str, type[Event]], message: ForeignMessage, now: float
) -> Envelope | BaseException:
    try:
        return read_foreign_event(kinds, message, now)
    except Exception as error:
        return error


def keep_malformed(store: Store, message: ForeignMessage, error: BaseException) -> None:
    """Store a message that cannot be read as a dead letter, with its bytes and properties."""
    envelope = decoded_object(message.raw) or {}
    event_type = envelope.get("event_type")
    store.keep_malformed(
        message.raw,
        Failure.of(error, at=store.now(), service=""),
        event_type=event_type if is_text(event_type) and "\x00" not in event_type else "",
        event_id=_given_id(envelope, message) or "",
        properties=_properties_text(message),
    )


def read_foreign_event(kinds: Mapping[str, type[Event] | None], message: ForeignMessage, now: float) -> Envelope:
    """Read an event of another program, or raise `Malformed` with the reason.

    `kinds` has the classes of the known event types. With None in place of a class, the type is known and the
    data is not checked: a worker reads it.
    """
    envelope = decode(message.raw)
    event_type = str(envelope["event_type"])
    if event_type not in kinds:
        known = ", ".join(sorted(kinds)) or "none"
        raise Malformed(f"the event type {event_type!r} is unknown; known are: {known}")
    kind = kinds[event_type]
    version = _version(envelope.get("version"), 1 if kind is None else kind.version)
    timestamp = read_time(envelope.get("timestamp"))
    is_whole = envelope.keys() <= ENVELOPE_FIELDS and (timestamp is not None or "timestamp" not in envelope)
    data = data_text(envelope)
    if kind is None or version > kind.version:
        is_whole = False
    else:
        data, is_same = _with_unknown_fields(envelope.get("data", {}), storable_data(read_event(kind, data)))
        is_whole &= is_same
    given = _given_id(envelope, message)
    return Envelope(
        event_type,
        data,
        given or new_id(),
        now if timestamp is None else timestamp,
        version,
        valid_trace(envelope.get("trace")),
        foreign=given is not None,
        raw=None if is_whole else message.raw,
        properties=None if is_whole else _properties_text(message),
    )


def _version(given: object, known: int) -> int:
    """Return the major number of a version: 2 for 2, "2" and "2.3"."""
    if given is None:
        return known
    if isinstance(given, str) and (found := _VERSION.fullmatch(given.strip())):
        major = int(found[1])
    elif isinstance(given, int | float) and not isinstance(given, bool) and given == given // 1:
        major = int(given)
    else:
        major = 0
    if not 0 < major < MAX_VERSION:
        raise Malformed(f"the field 'version' is {given!r:.50}, not a number from 1 on, such as 1 or \"1.0\"")
    return major


def _with_unknown_fields(given: dict[str, Any], data: str) -> tuple[str, bool]:
    """Return an event's data with the given fields that its class does not have.

    Also return whether the other fields are as they were given.
    """
    read = from_json(data)
    unknown = {name: value for name, value in given.items() if name not in read}
    if unknown:
        data = to_json(read | unknown).decode()
    return data, all(name in unknown or read[name] == value for name, value in given.items())


def _given_id(envelope: Mapping[str, Any], message: ForeignMessage) -> str | None:
    ids = (id for id in (envelope.get("event_id"), message.message_id) if is_text(id))
    return next((id for id in ids if 0 < len(id) <= MAX_ID and "\x00" not in id), None)


def _properties_text(message: ForeignMessage) -> str | None:
    if not message.properties:
        return None
    try:
        return _PROPERTIES.encode(message.properties)
    except ValueError:  # a number that JSON has not
        return _PROPERTIES.encode({"properties": repr(message.properties)})


def _as_text(value: object) -> str:
    """Return a value of a transport that JSON has not."""
    if isinstance(value, datetime):
        return iso_time(value.timestamp())
    return bytes(value).decode("utf-8", "backslashreplace") if isinstance(value, bytes | bytearray) else str(value)


_PROPERTIES = json.JSONEncoder(allow_nan=False, skipkeys=True, default=_as_text)
