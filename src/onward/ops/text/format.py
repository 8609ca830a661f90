"""Formats counts, times and texts; the result is harmless on a terminal, whatever a document holds."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import UTC, datetime, tzinfo
from typing import NamedTuple
from zoneinfo import ZoneInfo

from onward.pipeline.uploads import read_location
from onward.retry.iso_time import iso_time
from onward.retry.redact import redact

SHORT_ID = 8  # characters of a derived id that are shown, where they are enough to name it
_ORDINAL_ENDINGS = {1: "st", 2: "nd", 3: "rd"}

# Control characters drive a terminal, direction marks reorder what is read, half a surrogate cannot be printed.
_HARMFUL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


def harmless(text: str) -> str:
    """Return text of several lines without control characters that a terminal would obey."""
    return _HARMFUL.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))


def one_line(text: str, most: int = 0) -> str:
    """Return harmless text on one line, cut after `most` characters."""
    line = " ".join(harmless(text).split())
    return line[: most - 1].rstrip() + "…" if 0 < most < len(line) else line


def printable(text: str) -> str:
    """Return typed text with bytes that are no text replaced: no document has them in its text."""
    return text.encode("utf-8", "replace").decode()


def source_name(source: str) -> str:
    """Return the location of a source on one line, without credentials."""
    return one_line(redact(source))


def number(count: float) -> str:
    """Return a count with its thousands separated: 3 000."""
    return f"{count:,.0f}".replace(",", " ")


def counted(count: int, noun: str) -> str:
    """Return a count and what is counted: 1 message, 3 000 messages."""
    plural = noun[:-1] + "ies" if noun.endswith("ry") else noun + ("es" if noun.endswith("ch") else "s")
    return f"{number(count)} {noun if count == 1 else plural}"


def counted_in(count: int, collection: str) -> str:
    """Return the number of documents of a collection, whose name is a plural: 1 thread, 3 summaries."""
    if count != 1:
        return f"{number(count)} {collection}"
    return f"1 {collection[:-3] + 'y' if collection.endswith('ies') else collection.removesuffix('s')}"


def files_not_listed(count: int) -> str:
    """Return how many files and web pages a list of threads leaves out: 3 files and pages are not listed."""
    return f"{number(count)} {'file or page is' if count == 1 else 'files and pages are'} not listed"


def ordinal(number: int) -> str:
    """Return 1st, 2nd, 3rd, 4th, … 11th, 21st."""
    return f"{number}{'th' if number % 100 in (11, 12, 13) else _ORDINAL_ENDINGS.get(number % 10, 'th')}"


def be(count: int) -> str:
    """Return the verb for a count: is, are."""
    return "is" if count == 1 else "are"


def size(count: float) -> str:
    """Return a number of bytes: 1.4 MB."""
    if count < 1000:
        return f"{count:.0f} bytes"
    factor, unit = next((one for one in ((1e3, "kB"), (1e6, "MB")) if count < 1000 * one[0]), (1e9, "GB"))
    return f"{count / factor:.1f} {unit}"


def duration(seconds: float) -> str:
    """Return a time span: 1.5 s (of a float below 10), 40 s, 9 min, 5 h, 3 days."""
    if seconds < 10 and not isinstance(seconds, int):
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def interval(seconds: float) -> str:
    """Return a time span to the second: 90 s, 15 min, 2 h 30 min, 1 day."""
    left, parts = round(seconds), []
    if left < 120 and left % 60:
        return f"{left} s"
    for length, unit in ((86_400, "day"), (3_600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, length)
        if count:
            parts.append(counted(count, unit) if unit == "day" else f"{count} {unit}")
    return " ".join(parts) or "0 s"


def whole_duration(seconds: float) -> str:
    """Return a time span without fractions, at least 0 s."""
    return duration(max(0, round(seconds)))


def _date(at: float | None, zone: tzinfo | None = None) -> datetime | None:
    """Return a point in time in a zone, by default the reader's; None if no calendar has it."""
    try:
        return None if at is None else datetime.fromtimestamp(at, UTC).astimezone(zone)
    except (OverflowError, OSError, ValueError):
        return None


def moment(at: float | None) -> str:
    """Return a point in time with its date, in the reader's time zone."""
    there = _date(at)
    return there.strftime("%Y-%m-%d %H:%M") if there else ""


def clock_time(at: float) -> str:
    """Return a point in time in the reader's time zone: of today, without its date and with seconds."""
    there = datetime.fromtimestamp(at, UTC).astimezone()
    today = datetime.now(UTC).astimezone().date()
    return there.strftime("%H:%M:%S" if there.date() == today else "%Y-%m-%d %H:%M")


def iso(at: float | None) -> str | None:
    """Return a point in time for programs; None if no calendar has it."""
    return None if at is None or _date(at, UTC) is None else iso_time(at)


TimeFormat = Callable[[float, float], str]  # formats a point in time; the second argument is the time now


def local_time(at: float, now: float) -> str:
    """Return a point in time in the reader's time zone: of the same day, the hour and minute."""
    there, here = _date(at), _date(now)
    if there is None or here is None:
        return "a time that no calendar has"
    return there.strftime("%H:%M" if there.date() == here.date() else "%Y-%m-%d %H:%M")


def utc_time(at: float, now: float) -> str:
    """Return a point in time with its date and zone, for readers in any time zone."""
    there = _date(at, UTC)
    return there.strftime("%Y-%m-%d %H:%M UTC") if there else local_time(at, now)


def offset_text(there: datetime) -> str:
    """Return the distance of a local time to UTC: UTC+05:30."""
    offset = there.isoformat()[-6:]
    return "UTC" if offset == "+00:00" else f"UTC{offset}"


def zoned_time(at: float, zone: str) -> str:
    """Return a point in time in a zone, for a sentence that is stored: 2026-11-17 14:22 (UTC+01:00)."""
    try:
        there = _date(at, ZoneInfo(zone))
    except (LookupError, OSError, ValueError):
        there = _date(at, UTC)  # the machine that runs an action may not know the zone of who began it
    return f"{there:%Y-%m-%d %H:%M} ({offset_text(there)})" if there else "a time that no calendar has"


class Instant(NamedTuple):
    """A point in time inside a sentence; a page shows it in the reader's time zone and keeps it fresh."""

    at: float
    relative: bool = False  # shown as the span from now until then: in 5 min


Sentence = tuple[str | Instant, ...]  # text, and points in time that each reader formats


def sentence_text(sentence: Sentence, now: float, time_format: TimeFormat = local_time) -> str:
    def text(part: str | Instant) -> str:
        if isinstance(part, str):
            return part
        return f"in {whole_duration(part.at - now)}" if part.relative else time_format(part.at, now)

    return "".join(map(text, sentence))


def worker_process(worker: str) -> str:
    """Return a worker's host and process id: the rest of its name means nothing to a person."""
    return ":".join(worker.split(":")[:2])


def shell_command(text: str, *words: str) -> str:
    """Return a command with words that come from documents quoted: onward show 'notes/my note'.

    Empty if a word has characters that nobody can see or type.
    """
    if not all(word.isprintable() for word in words):
        return ""
    first = ["--"] if any(word.startswith("-") for word in words) else []
    return " ".join([text, *first, *(shlex.quote(word) for word in words)])


def made_visible(data: bytes) -> bytes:
    """Return bytes that are safe to print on a terminal: control characters are written as \\x1b."""
    text = data.decode("utf-8", "backslashreplace").replace("\r\n", "\n")
    return _HARMFUL.sub(lambda found: f"\\x{ord(found[0]):02x}", text).encode()


def display_name(source: str) -> str:
    """Return a source's name; of an upload, the name of its file."""
    upload = read_location(source)
    return f"{upload.name} (uploaded)" if upload is not None else source_name(source)


def short_name(source: str) -> str:
    """Return the last part of a source's name, where there is little space."""
    return display_name(source).rstrip("/").rpartition("/")[2] or display_name(source)


_OOXML = "application/vnd.openxmlformats-officedocument"
_ODF = "application/vnd.oasis.opendocument"
_OFFICE_TYPES = {
    f"{_OOXML}.wordprocessingml.document": "Word",
    f"{_OOXML}.spreadsheetml.sheet": "Excel",
    f"{_OOXML}.presentationml.presentation": "PowerPoint",
    "application/msword": "Word",
    "application/vnd.ms-excel": "Excel",
    "application/vnd.ms-powerpoint": "PowerPoint",
    f"{_ODF}.text": "OpenDocument text",
    f"{_ODF}.spreadsheet": "OpenDocument spreadsheet",
    f"{_ODF}.presentation": "OpenDocument presentation",
}


def media_type(content_type: str) -> str:
    """Return a content type as it is shown: office files by the name of their format, others as they are."""
    return _OFFICE_TYPES.get(content_type, one_line(content_type, 80))
