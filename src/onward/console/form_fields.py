"""Values of submitted forms; a value that makes no sense is refused with its name."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime

from onward.ops.bad_input import BadInput
from onward.ops.dates import read_span
from onward.ops.text.format import one_line

MAX_AHEAD_SECONDS = 366 * 86_400.0
"""A time further ahead than this is likely a mistake."""
WHEN = "a span such as 30m, 2h or 1d, or a time such as 2026-03-09T14:30, which is UTC unless it says otherwise"

Given = Mapping[str, str]


def clean(text: str) -> str:
    """Return a text without NUL characters, which no name in a store has."""
    return text.replace("\0", "")


def text(given: Given, name: str) -> str | None:
    """Return a text, or None if it is empty."""
    return clean(given.get(name, "")).strip() or None


def needed(given: Given, name: str) -> str:
    """Return a text that must not be empty."""
    found = clean(given.get(name, ""))
    if not found.strip():
        raise BadInput(f"`{name}` is missing, and it says what the change is about")
    return found


def ticked(given: Given, name: str) -> bool:
    """Return whether a box was ticked."""
    return given.get(name, "").strip().lower() in ("yes", "true", "on", "1")


def whole_number(given: Given, name: str, remedy: str) -> int | None:
    """Return a number without sign or fraction, or None if it is empty."""
    found = text(given, name)
    if found is not None and not (found.isascii() and found.isdecimal() and len(found) < 20):
        raise BadInput(f"`{name}` is {one_line(found, 40)!r}; {remedy}")
    return None if found is None else int(found)


def rate(given: Given) -> float | None:
    """Return how many a second, or None if it is empty."""
    found = text(given, "rate")
    if found is None:
        return None
    try:
        number = float(found)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise BadInput(f"`rate` is {one_line(found, 40)!r}; give how many a second, such as 10 or 0.5, or nothing")
    return number


def read_when(given: str, now: float) -> float:
    """Return the point in time of a span or a date."""
    span = read_span(given.strip().lower())
    try:
        found = datetime.fromisoformat(given.strip().upper()) if span is None else datetime.now(UTC)
    except ValueError:
        raise BadInput(f"{one_line(given, 50)!r} is no time: give {WHEN}") from None
    at = now + span if span is not None else (found if found.tzinfo else found.replace(tzinfo=UTC)).timestamp()
    if at < now:
        raise BadInput(f"{one_line(given, 50)!r} is past: give a time to come")
    if at > now + MAX_AHEAD_SECONDS:
        raise BadInput(f"{one_line(given, 50)!r} is more than a year ahead: give an earlier time")
    return at
