"""Calendars (iCalendar) and contacts (vCard), which are made of the same kind of lines."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from onward.pipeline.read.charsets import clean, codec_of, read_text
from onward.pipeline.read.page_text import NoText, PageText

_FOLD = re.compile(rb"\r?\n[ \t]")
_LINE = re.compile(r"""(?:[\w-]+\.)?([A-Za-z-]{1,60})((?:;(?:"[^"\n]*"|[^":;\n])*+)*+):(.*)""")
_QUOTED_PRINTABLE = re.compile(r";(?:ENCODING=)?QUOTED-PRINTABLE(?=[;:])", re.IGNORECASE)
_SOFT_BREAK = re.compile(r"=[ \t]*$")
_DECODED_FOLD = re.compile(r"\n[ \t]")
_ZONE = re.compile(r';TZID="?([^";:]+)', re.IGNORECASE)
_CHARSET = re.compile(r';CHARSET="?([^";:]+)', re.IGNORECASE)
_NAME = re.compile(r';CN=(?:"([^"]*)"|([^;:]*))', re.IGNORECASE)
_ESCAPED = re.compile(r"\\([\\,;:nN\"])")
_DATE = re.compile(r"(\d{4})-?(\d\d)-?(\d\d)(?:T(\d\d):?(\d\d):?(\d\d))?(Z?)")

_EVENT_WORDS = {
    "dtstart": "Start", "dtend": "End", "due": "Due", "rrule": "Repeats", "location": "Location",
    "organizer": "Organizer", "attendee": "Attendee", "status": "Status", "categories": "Categories",
    "description": "", "comment": "", "url": "URL", "contact": "Contact",
}  # fmt: skip
_CONTACT_WORDS = {
    "org": "Organization", "title": "Title", "role": "Role", "nickname": "Nickname", "email": "Mail",
    "tel": "Telephone", "adr": "Address", "url": "URL", "bday": "Birthday", "categories": "Categories",
    "note": "", "impp": "Messages",
}  # fmt: skip


class _Line(NamedTuple):
    name: str
    parameters: str
    value: str


def read_calendar(data: bytes, charset: str = "") -> PageText:
    """Return the events, tasks and notes of a calendar, titled by its name or its first event."""
    calendar, blocks = "", list[str]()
    title = author = ""
    date: float | None = None
    for name, lines in _components(_unfolded(data, charset)):
        found = {line.name: line for line in reversed(lines)}
        if name == "vcalendar":
            calendar = found["x-wr-calname"].value if "x-wr-calname" in found else ""
        if name not in ("vevent", "vtodo", "vjournal"):
            continue
        summary = found["summary"].value if "summary" in found else ""
        blocks.append("\n".join(filter(None, (summary, *_written(lines, _EVENT_WORDS)))))
        if len(blocks) == 1:
            title, date = summary, _date(found["dtstart"]) if "dtstart" in found else None
            author = _person(found["organizer"]) if "organizer" in found else ""
    if not any(blocks):
        raise NoText("the calendar has no event with a text")
    return PageText(calendar or title, author if len(blocks) == 1 else "", date, "\n\n".join(blocks))


def read_contacts(data: bytes, charset: str = "") -> PageText:
    """Return the contacts of a vCard file; its title is the name of the first."""
    names, blocks = list[str](), list[str]()
    for name, lines in _components(_unfolded(data, charset)):
        if name == "vcard":
            found = {line.name: line for line in reversed(lines)}
            shown = found["fn"].value if "fn" in found else found["n"].value if "n" in found else ""
            names.append(" ".join(shown.replace(";", " ").split()))
            blocks.append("\n".join(filter(None, (names[-1], *_written(lines, _CONTACT_WORDS)))))
    if not any(blocks):
        raise NoText("the vCard file has no contact with a name, an address or a note")
    title = names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more contacts"
    return PageText(title, "", None, "\n\n".join(blocks))


def _components(text: str) -> Iterator[tuple[str, list[_Line]]]:
    """Yield each component with its own lines, where it ends: an event before the calendar that it is in."""
    stack: list[tuple[str, list[_Line]]] = []
    for line in _lines(text):
        value = line.value.strip().lower()
        if line.name == "begin":
            stack.append((value, []))
        elif line.name == "end":
            if stack:
                yield stack.pop()
        elif stack:
            stack[-1][1].append(line)
    yield from reversed(stack)  # the end is missing


def _unfolded(data: bytes, charset: str) -> str:
    """Decode lines that were put together again: a line may be folded within a character."""
    return read_text(data if data.startswith((b"\xff\xfe", b"\xfe\xff")) else _FOLD.sub(b"", data), charset)


def _lines(text: str) -> Iterator[_Line]:
    lines = iter(_DECODED_FOLD.sub("", text).split("\n"))
    for written in lines:
        if (match := _LINE.match(written)) is None:
            continue
        name, parameters, value = match[1].lower(), match[2], match[3]
        if _QUOTED_PRINTABLE.search(parameters + ":"):  # of vCard 2.1, whose lines go on after "="
            pieces = [value]  # joined at the end: there may be a million
            while _SOFT_BREAK.search(pieces[-1]) and (more := next(lines, None)) is not None:
                pieces[-1] = _SOFT_BREAK.sub("", pieces[-1])
                pieces.append(more)
            value = _from_quoted_printable("".join(pieces), parameters)
        yield _Line(name, parameters, _ESCAPED.sub(lambda it: "\n" if it[1] in "nN" else it[1], value))


def _from_quoted_printable(value: str, parameters: str) -> str:
    encoded = value.encode("utf-8", "replace")
    data = re.sub(rb"=([0-9A-Fa-f]{2})", lambda byte: bytes.fromhex(byte[1].decode()), encoded)
    if (named := _CHARSET.search(parameters)) and (codec := codec_of(named[1])):
        with suppress(ValueError):
            return clean(data.decode(codec))
    return read_text(data)


def _written(lines: list[_Line], words: dict[str, str]) -> Iterator[str]:
    for line in lines:
        if line.name not in words or not line.value.strip(" ;"):
            continue
        value = _person(line) if line.name in ("organizer", "attendee") else line.value
        if line.name in ("adr", "org"):
            value = ", ".join(filter(None, map(str.strip, value.split(";"))))
        word = words[line.name]
        yield f"{word}: {value}" if word else value


def _person(line: _Line) -> str:
    address = line.value.strip()
    address = address[7:] if address.lower().startswith("mailto:") else address
    match = _NAME.search(line.parameters)
    name = (match[1] or match[2] or "").strip() if match else ""
    return f"{name} <{address}>" if name and name != address else address


def _date(line: _Line) -> float | None:
    """Return a date as Unix seconds, in its zone if that is known; else it is UTC."""
    match = _DATE.match(line.value.strip())
    if match is None:
        return None
    zone: tzinfo = UTC
    if not match[7] and (named := _ZONE.search(line.parameters)):
        with suppress(LookupError, ValueError, OSError):  # not a name of the time zone database
            zone = ZoneInfo(named[1].strip())
    try:
        return datetime(*(int(part or 0) for part in match.groups()[:6]), tzinfo=zone).timestamp()  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        return None
