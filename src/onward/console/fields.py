"""What was filled in before a change, read with care: a value that makes no sense is refused with its name."""

from __future__ import annotations

import math
from collections.abc import Mapping

from onward.console.acting import Field
from onward.facts.finding import Unusable
from onward.facts.wording import one_line

MOST_CANARIES = 1_000_000

Given = Mapping[str, str]


def clean(text: str) -> str:
    """A text that every store can be asked for: no name has a NUL in it."""
    return text.replace("\0", "")


def text(given: Given, name: str) -> str | None:
    """A text; None if there is none."""
    return clean(given.get(name, "")).strip() or None


def needed(given: Given, name: str) -> str:
    """A text that must be there."""
    found = clean(given.get(name, ""))
    if not found.strip():
        raise Unusable(f"`{name}` is missing, and it says what the change is about")
    return found


def ticked(given: Given, name: str) -> bool:
    """Whether a box was ticked."""
    return given.get(name, "").strip().lower() in ("yes", "true", "on", "1")


def canary(given: Given) -> int:
    """How many go first; 0: all go at once."""
    found = text(given, "canary")
    if found is None:
        return 0
    if not (found.isascii() and found.isdecimal() and len(found) < 10 and int(found) <= MOST_CANARIES):
        raise Unusable(f"`canary` is {one_line(found, 40)!r}; give how many go first, such as 3, or nothing")
    return int(found)


def rate(given: Given) -> float | None:
    """How many a second; None: as many as the store takes."""
    found = text(given, "rate")
    if found is None:
        return None
    try:
        number = float(found)
    except ValueError:
        number = math.nan
    if not (math.isfinite(number) and number > 0):
        raise Unusable(f"`rate` is {one_line(found, 40)!r}; give how many a second, such as 10 or 0.5, or nothing")
    return number


def pace(given: Given) -> tuple[Field, Field]:
    """How fast something is put back, to be asked for."""
    return (
        Field("canary", "Try so many first", "number", given.get("canary", ""), "the rest only if they go well"),
        Field("rate", "At most so many a second", "text", given.get("rate", ""), "empty: as fast as it goes"),
    )
