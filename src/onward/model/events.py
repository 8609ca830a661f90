"""Events: facts that name documents by id."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import time
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeGuard

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticSerializationError, from_json, to_json

from onward.model.documents import Document
from onward.model.fingerprints import message_of
from onward.retry import Malformed, OnwardError

MAX_IDS = 500
MAX_BYTES = 64_000
MAX_ROUTING_KEY_BYTES = 255
MAX_DEPTH = 100  # Lists within lists: a database and callers that list events read them inside another list

# Making an encoder takes as long as using it.
_ENCODER = json.JSONEncoder(ensure_ascii=False, allow_nan=False)
_SORTING_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"))
# An even number of backslashes before it are backslashes of the text.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_BRACKETS = re.compile(r'"(?:[^"\\]|\\.)*+"|([\[{])|([\]}])')


class EventTooLarge(OnwardError, ValueError):
    """An event is over its limit; large things belong into documents, which events name."""


class UnstorableEvent(Malformed, ValueError):
    """An event holds something that not every database keeps, or not every reader of JSON reads."""


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
    With `notice=True` it only reports something, and is not stored if it has no consumer.
    """

    # A number that is none is written as such, to be refused: as `null` it would be another value.
    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True, ser_json_inf_nan="constants")

    event_type: ClassVar[str] = ""
    routing_key: ClassVar[str] = ""
    version: ClassVar[int] = 1
    notice: ClassVar[bool] = False  # It only reports what has happened: without a consumer it is not stored
    naming: ClassVar[dict[str, str]] = {}  # The collections of documents that fields name, by field

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
        cls.routing_key = routing_key or dotted(cls.event_type)
        cls.version = version
        if len(cls.routing_key.encode()) > MAX_ROUTING_KEY_BYTES:
            raise ValueError(
                f"the routing key of {cls.event_type:.100} has more than {MAX_ROUTING_KEY_BYTES} bytes, which no "
                "broker takes; give a shorter one with routing_key="
            )

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
        named = [documents] if isinstance(documents, Document) else list(documents)
        for document in named[:1]:
            field = cls.field_naming(document.collection)
            if field is None:
                raise TypeError(
                    f"{cls.event_type} names no documents of collection {document.collection!r}; "
                    f"mark a field with names({type(document).__name__})"
                )
            many = cls.model_fields[field].annotation is not str
            return cls(**{field: [document.id for document in named] if many else document.id}, **data)
        empty = next(iter(cls.naming), None)
        return cls(**({empty: []} if empty else {}), **data)

    @classmethod
    def field_naming(cls, collection: str) -> str | None:
        return next((field for field, named in cls.naming.items() if named == collection), None)


def dotted(camel: str) -> str:
    """Return the routing key of an event type: lower case, with dots between its words."""
    words = ""
    for position, letter in enumerate(camel):
        neighbours = camel[position - 1 : position], camel[position + 1 : position + 2]
        begins = position and letter.isupper() and any(neighbour.islower() for neighbour in neighbours)
        words += f".{letter}" if begins else letter
    return words.lower()


@dataclass(slots=True)
class Envelope:
    """An event in transport: its data as JSON text, with its id, time, priority and source."""

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
    foreign: bool = False  # Its id was given by another program, which may send it again
    routing_key: str = ""  # Under which it leaves for other programs; empty: it does not leave
    raw: bytes | None = None  # The bytes of another program's message, if the row would not have all of it
    properties: str | None = None  # The properties of that message, as JSON text
    expires_in: float | None = None  # Seconds after which no try of it begins; None: it has no deadline

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
        leaves: bool = True,
        expires_in: float | None = None,
    ) -> list[Envelope]:
        """Wrap an event, cut into several where it names more documents than one may.

        With `leaves`, a gateway publishes it to other programs.
        """
        key = event.routing_key if leaves else ""
        context = (event.version, trace, source, priority, due_in, event.notice, False, key)
        return [
            cls(event.event_type, _data_of(piece), new_id(), now, *context, expires_in=expires_in)
            for piece in _cut(event)
        ]


def _data_of(event: Event) -> str:
    data = storable_data(event)
    if len(data) > MAX_BYTES and len(data.encode()) > MAX_BYTES:
        raise EventTooLarge(
            f"event {event.event_type} takes {len(data.encode()):,} bytes, more than {MAX_BYTES:,}; "
            "put what is large into a document and name it by id"
        )
    return data


def storable_data(event: Event) -> str:
    """Return an event's data as JSON text, or raise `UnstorableEvent`."""
    try:
        data = event.model_dump_json()
        if "NaN" in data or "Infinity" in data:  # perhaps in a text
            json.loads(data, parse_constant=_refuse_constant)
    except (PydanticSerializationError, ValueError, TypeError, RecursionError) as error:
        raise UnstorableEvent(
            f"event {event.event_type} cannot be stored: {message_of(error)}. "
            "Give the offending field a type and a value that JSON has"
        ) from error
    check_storable(event.event_type, data)
    return data


def _refuse_constant(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def check_storable(event_type: str, data: str) -> None:
    """Raise `UnstorableEvent` if JSON text holds a NUL, or is nested too deeply."""
    if "\\u0000" in data and _NUL.search(data):
        raise UnstorableEvent(f"event {event_type} cannot be stored: it contains a NUL character; take it out")
    if data.count("[") + data.count("{") > MAX_DEPTH and (depth := _depth(data)) > MAX_DEPTH:
        raise UnstorableEvent(
            f"event {event_type} cannot be stored: it is nested {depth:,} levels deep, more than {MAX_DEPTH}; "
            "put what is nested so deeply into a document and name it by id"
        )


def _depth(data: str) -> int:
    depth = deepest = 0
    for bracket in _BRACKETS.finditer(data):
        depth += (bracket[1] is not None) - (bracket[2] is not None)
        deepest = max(deepest, depth)
    return deepest


def _cut(event: Event) -> Iterable[Event]:
    lists = [field for field in event.naming if isinstance(getattr(event, field), list)]
    longest = max(lists, key=lambda field: len(getattr(event, field)), default=None)
    if longest is None:
        return (event,)
    ids: list[str] = getattr(event, longest)
    # Half of the byte limit for the ids leaves room for the other fields.
    longest_id = max((len(id.encode(errors="replace")) for id in ids), default=1)
    size = min(MAX_IDS, max(1, MAX_BYTES // 2 // max(1, longest_id)))
    if len(ids) <= size:
        return (event,)
    return [event.model_copy(update={longest: ids[start : start + size]}) for start in range(0, len(ids), size)]


def new_id() -> str:
    """Return a unique id that sorts by time, so that indexes on it grow at one end."""
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
            # A newer version may name documents by more than text.
            fields[name] = sorted(fields[name], key=lambda id: id if isinstance(id, str) else json.dumps(id))
    text = _SORTING_ENCODER.encode([event_type, sorted(revisions), fields])
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


def is_text(value: object) -> TypeGuard[str]:
    """Return whether a value is text that can be encoded: JSON can contain a lone surrogate."""
    try:
        return isinstance(value, str) and value.encode() is not None
    except UnicodeEncodeError:
        return False


_JSON_NAMES = {list: "an array", str: "a string", bool: "true or false", type(None): "null"}


def decode(raw: bytes | str) -> dict[str, Any]:
    """Read the envelope of another program's event, or raise `Malformed` with the reason."""
    if len(raw) > MAX_BYTES * 2:
        raise Malformed(f"an event of {len(raw):,} bytes is larger than {MAX_BYTES * 2:,}")
    try:
        envelope = json.loads(raw.decode("utf-8") if isinstance(raw, bytes) else raw)
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise Malformed(f"not JSON: {error}") from error
    if not isinstance(envelope, dict):
        raise Malformed(f"an event is a JSON object, not {_JSON_NAMES.get(type(envelope), 'a number')}")
    if not is_text(envelope.get("event_type")) or "\x00" in envelope["event_type"]:
        raise Malformed("the field 'event_type' is missing or not a string")
    if not isinstance(envelope.get("data", {}), dict):
        raise Malformed("the field 'data' is not an object")
    return envelope


def decoded_object(raw: bytes) -> dict[str, Any] | None:
    """Return the JSON object in a message that cannot be read as an event, to show it; None: it is none."""
    try:
        text = raw.decode()
        if _depth(text) > MAX_DEPTH:
            return None
        found = json.loads(text, parse_constant=str, parse_float=_number_or_text)
        if "\\ud" in text.lower():  # perhaps half a character, which cannot be shown
            found = json.loads(json.dumps(found, ensure_ascii=False).encode(errors="replace"))
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _number_or_text(number: str) -> float | str:
    return found if math.isfinite(found := float(number)) else number


def data_text(envelope: dict[str, Any]) -> str:
    """Return the data of another program's event as JSON text, or raise `Malformed` if it cannot be stored."""
    try:
        data = _ENCODER.encode(envelope.get("data", {}))
        data.encode()
    except UnicodeEncodeError as error:
        raise Malformed(f"its data holds half a character, a lone surrogate: {error}") from error
    except (ValueError, RecursionError) as error:
        raise Malformed(f"its data holds a number that JSON has not, or is nested too deeply: {error}") from error
    check_storable(envelope["event_type"], data)
    return data


def read_event(cls: type[Event], data: str) -> Event:
    """Read an event's data, or raise `Malformed` naming the fields that are wrong.

    Fields that the class does not have are ignored: other programs and newer releases may send more. Whatever
    a validator of the class raises becomes `Malformed`, too: only this event cannot be read.
    """
    try:
        return _read_known_fields(cls, data)
    except ValidationError as error:
        wrong = "; ".join(
            f"{'.'.join(str(part) for part in problem['loc']) or 'data'}: {problem['msg']}"
            for problem in error.errors()
        )
        raise Malformed(f"{cls.event_type} fails its schema: {wrong}") from error
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        raised = f"{type(error).__name__}: {message_of(error)}"
        raise Malformed(f"a validator of {cls.event_type} raised {raised}") from error


def _read_known_fields(cls: type[Event], data: str) -> Event:
    try:
        return cls.model_validate_json(data)
    except ValidationError as error:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        unknown = [problem["loc"] for problem in problems if problem["type"] == "extra_forbidden"]
        if not unknown:
            raise
    if any(len(place) > 1 for place in unknown):
        return cls.model_validate_json(data, extra="ignore")
    # Not by `extra="ignore"`, which would also apply to values inside that allow more fields.
    left_out = {name for (name,) in unknown}
    known = {name: value for name, value in from_json(data).items() if name not in left_out}
    return cls.model_validate_json(to_json(known))
