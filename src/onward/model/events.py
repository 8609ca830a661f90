"""Events: facts that name documents by id."""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from onward.model.documents import Document
from onward.retry import Malformed, OnwardError

MAX_IDS = 500
MAX_BYTES = 64_000


class EventTooLarge(OnwardError, ValueError):
    """An event is over its limit; large things belong into documents, which events name."""


@dataclass(frozen=True, slots=True)
class _Names:
    collection: str


def names(document: type[Document] | str, *, default: Any = ...) -> Any:
    """Mark a field of an event as naming documents of a collection, by one id or a list of ids.

        class PagesFound(Event):
            page_ids: list[str] = names(Page)

    Give the collection's name in place of the class where that is not importable.
    """
    info = Field(default=default)
    info.metadata.append(_Names(document if isinstance(document, str) else document.collection))
    return info


class Event(BaseModel):
    """A fact that names documents by id; subclass it and mark its ids with `names`.

        class PagesFound(Event):
            page_ids: list[str] = names(Page)
            found_by: str = "crawler"

    The event's type is the class name, its routing key the same in lower case with dots
    (`pages.found`); both can be given, as can a version: `class PagesFound(Event, version=2)`.
    With `notice=True` it asks for nothing, and is not kept while nobody listens.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    event_type: ClassVar[str] = ""
    routing_key: ClassVar[str] = ""
    version: ClassVar[int] = 1
    notice: ClassVar[bool] = False
    """It tells of what has happened and asks for nothing: without a consumer it is not kept."""
    naming: ClassVar[dict[str, str]] = {}
    """Which field names documents of which collection."""

    def __init_subclass__(
        cls,
        *,
        type: str | None = None,
        routing_key: str | None = None,
        version: int = 1,
        notice: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init_subclass__(**kwargs)
        cls.notice = notice
        cls.event_type = type or cls.__name__
        cls.routing_key = routing_key or _dotted(cls.event_type)
        cls.version = version

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        cls.naming = {
            field: mark.collection
            for field, info in cls.model_fields.items()
            for mark in info.metadata
            if isinstance(mark, _Names)
        }

    @classmethod
    def of(cls, documents: Document | Iterable[Document], **data: Any) -> Self:
        """Make the event that names these documents, and give its other fields."""
        given = [documents] if isinstance(documents, Document) else list(documents)
        for document in given[:1]:
            field = cls.field_naming(document.collection)
            if field is None:
                raise TypeError(
                    f"{cls.event_type} names no documents of collection {document.collection!r}; "
                    f"mark a field with names({type(document).__name__})"
                )
            many = cls.model_fields[field].annotation is not str
            return cls(**{field: [one.id for one in given] if many else document.id}, **data)
        empty = next(iter(cls.naming), None)
        return cls(**({empty: []} if empty else {}), **data)

    @classmethod
    def field_naming(cls, collection: str) -> str | None:
        """The field that names documents of a collection, if there is one."""
        return next((field for field, named in cls.naming.items() if named == collection), None)


def _dotted(camel: str) -> str:
    words: list[str] = []
    for position, letter in enumerate(camel):
        starts = letter.isupper() and (
            position == 0
            or camel[position - 1].islower()
            or (position + 1 < len(camel) and camel[position + 1].islower())
        )
        if starts or not words:
            words.append(letter.lower())
        else:
            words[-1] += letter.lower()
    return ".".join(words)


@dataclass(slots=True)
class Envelope:
    """An event on its way: its data as JSON text, and what names and orders it."""

    event_type: str
    data: str
    event_id: str
    timestamp: float
    version: int = 1
    trace: str | None = None
    source: str | None = None
    priority: int = 0
    due_in: float = 0.0
    notice: bool = False
    foreign: bool = False
    """Its id was given by somebody else, who may send it again."""

    @classmethod
    def of(
        cls,
        event: Event,
        *,
        now: float,
        source: str | None = None,
        priority: int = 0,
        due_in: float = 0.0,
        trace: str | None = None,
    ) -> list[Envelope]:
        """Wrap an event, cut into several where it names more documents than one may."""
        return [
            cls(
                event_type=piece.event_type,
                data=_data_of(piece),
                event_id=new_id(),
                timestamp=now,
                version=piece.version,
                trace=trace,
                source=source,
                priority=priority,
                due_in=due_in,
                notice=piece.notice,
            )
            for piece in _cut(event)
        ]


def _data_of(event: Event) -> str:
    data = event.model_dump_json()
    if len(data) > MAX_BYTES and len(data.encode()) > MAX_BYTES:
        raise EventTooLarge(
            f"event {event.event_type} takes {len(data.encode()):,} bytes, more than {MAX_BYTES:,}; "
            "put what is large into a document and name it by id"
        )
    return data


def _cut(event: Event) -> Iterable[Event]:
    lists = [field for field in event.naming if isinstance(getattr(event, field), list)]
    longest = max(lists, key=lambda field: len(getattr(event, field)), default=None)
    if longest is None:
        return (event,)
    ids: list[str] = getattr(event, longest)
    # Half of the byte limit for the ids leaves room for the other fields.
    size = min(MAX_IDS, max(1, MAX_BYTES // 2 // max((len(one.encode()) for one in ids), default=1)))
    if len(ids) <= size:
        return (event,)
    return [event.model_copy(update={longest: ids[start : start + size]}) for start in range(0, len(ids), size)]


def new_id() -> str:
    """A unique id that sorts by time, so that indexes on it grow at one end."""
    return f"{time.time_ns() // 1_000_000:012x}{os.urandom(10).hex()}"


def idempotency_key(
    event_type: str, data: str, revisions: Sequence[tuple[str, int]] = (), naming: Collection[str] = ()
) -> str:
    """Name what an event asks for: its type, all its ids with their revisions, and its data.

    The order of ids does not matter, and no two different requests share a key.

    >>> one = idempotency_key("T", '{"ids": ["a", "b"]}', [("a", 1), ("b", 1)], ["ids"])
    >>> one == idempotency_key("T", '{"ids": ["b", "a"]}', [("b", 1), ("a", 1)], ["ids"])
    True
    """
    fields: dict[str, Any] = json.loads(data)
    for name in naming:
        if isinstance(fields.get(name), list):
            fields[name] = sorted(fields[name])
    text = json.dumps([event_type, sorted(revisions), fields], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_text(value: object) -> TypeGuard[str]:
    """Whether a value is text that can be written: JSON can spell half a character, a lone surrogate."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


def decode(raw: bytes | str) -> dict[str, Any]:
    """Read an event's envelope from what somebody sent, or raise `Malformed` and say why."""
    if len(raw) > MAX_BYTES * 2:
        raise Malformed(f"an event of {len(raw):,} bytes is larger than {MAX_BYTES * 2:,}")
    try:
        text = raw.decode("utf-8") if isinstance(raw, bytes) else raw
        envelope = json.loads(text)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise Malformed(f"an event is a JSON object, this is a {type(envelope).__name__}")
    if not is_text(envelope.get("event_type")):
        raise Malformed("the field 'event_type' is missing or not a string")
    if not isinstance(envelope.get("data", {}), dict):
        raise Malformed("the field 'data' is not an object")
    if "\\u0000" in text or "\x00" in text:
        raise Malformed("it contains a NUL character")
    return envelope


def read_event(cls: type[Event], data: str) -> Event:
    """Read an event's data, or raise `Malformed` naming the fields that are wrong."""
    try:
        return cls.model_validate_json(data)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in one['loc']) or 'data'}: {one['msg']}" for one in error.errors()
        )
        raise Malformed(f"{cls.event_type} fails its schema: {wrong}") from error
