"""How long and when, in words."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from datetime import UTC, datetime

TimeInWords = Callable[[float, float], str]
"""Writes a point in time; it is told, too, what time it is now."""
ENDINGS = {1: "st", 2: "nd", 3: "rd"}


def lasting(seconds: float) -> str:
    """A time span, as exactly as anybody wants to know: 40 s, 9 min, 5 h, 3 days."""
    seconds = max(0.0, seconds)
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3600:.0f} h" if seconds < 48 * 3600 else f"{seconds / 86400:.0f} days"


def at_time(at: float, now: float) -> str:
    """A point in time in the reader's time zone; of the same day, the hour and minute will do."""
    try:
        there, here = (datetime.fromtimestamp(one, UTC).astimezone() for one in (at, now))
    except (OverflowError, OSError, ValueError):
        return "a time that no calendar has"
    return there.strftime("%H:%M" if there.date() == here.date() else "%Y-%m-%d %H:%M")


def in_utc(at: float, now: float) -> str:
    """The same for readers who may be anywhere: whole, and with its zone."""
    try:
        return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M UTC")
    except (OverflowError, OSError, ValueError):
        return at_time(at, now)


def ordinal(number: int) -> str:
    """1st, 2nd, 3rd, 4th, … 11th, 21st."""
    return f"{number}{'th' if number % 100 in (11, 12, 13) else ENDINGS.get(number % 10, 'th')}"


def plural(count: int, noun: str) -> str:
    """1 round, 3 000 rounds."""
    return f"{count:,} {noun if count == 1 else noun + 's'}".replace(",", " ")


def command(text: str, *words: str) -> str:
    """What a person can type, with words that come from documents quoted: onward show 'notes/my note'.

    Empty if one of them has characters that nobody can see or type.
    """
    if not all(one.isprintable() for one in words):
        return ""
    first = ["--"] if any(one.startswith("-") for one in words) else []
    return " ".join([text, *first, *(shlex.quote(one) for one in words)])
