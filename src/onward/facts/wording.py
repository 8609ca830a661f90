"""Counts, times and texts in words; harmless whatever a document holds."""

from __future__ import annotations

import re
from datetime import UTC, datetime

from onward.retry.redact import redact

SHORT_ID = 8


# Control characters drive a terminal, direction marks reorder what is read, half a surrogate cannot be printed.
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Text of several lines without anything that a terminal would obey."""
    return _HARMFUL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int = 0) -> str:
    """Harmless text on one line, cut after `most` characters."""
    line = " ".join(harmless(text).split())
    return line[: most - 1].rstrip() + "…" if 0 < most < len(line) else line


def printable(text: str) -> str:
    """What was typed, with bytes that are no text replaced: no document has them in its text."""
    return text.encode("utf-8", "replace").decode()


def source_name(source: str) -> str:
    """A source as it may be shown: on one line, without credentials."""
    return one_line(redact(source))


def number(count: float) -> str:
    """A count with its thousands set apart: 3 000."""
    return f"{count:,.0f}".replace(",", " ")


def counted(count: int, noun: str) -> str:
    """A count and what is counted: 1 message, 3 000 messages."""
    plural = noun[:-1] + "ies" if noun.endswith("ry") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{number(count)} {noun if count == 1 else plural}"


def counted_in(count: int, collection: str) -> str:
    """How many documents of a collection, whose name is a plural: 1 thread, 3 summaries."""
    if count != 1:
        return f"{number(count)} {collection}"
    return f"1 {collection[:-3] + 'y' if collection.endswith('ies') else collection.removesuffix('s')}"


def duration(seconds: float) -> str:
    """How long something takes, as exactly as anybody wants to know."""
    if seconds < 10 and not isinstance(seconds, int):
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def moment(at: float | None) -> str:
    """A point in time, in the time zone of whoever reads it."""
    if at is None:
        return ""
    try:
        return datetime.fromtimestamp(at, UTC).astimezone().strftime("%Y-%m-%d %H:%M")
    except (OverflowError, OSError, ValueError):
        return ""


def clock_time(at: float) -> str:
    """A point in time close to now: the hour and minute will do."""
    there = datetime.fromtimestamp(at, UTC).astimezone()
    today = datetime.now(UTC).astimezone().date()
    return there.strftime("%H:%M:%S" if there.date() == today else "%Y-%m-%d %H:%M")


def iso(at: float | None) -> str | None:
    """A point in time for programs."""
    if at is None:
        return None
    try:
        return datetime.fromtimestamp(at, UTC).isoformat()
    except (OverflowError, OSError, ValueError):
        return None


def size(count: float) -> str:
    """A number of bytes: 1.4 MB."""
    if count < 1000:
        return f"{count:.0f} bytes"
    for unit in ("kB", "MB"):
        count /= 1000
        if count < 1000:
            return f"{count:.1f} {unit}"
    return f"{count / 1000:.1f} GB"
