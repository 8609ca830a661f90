"""The options of a publication, and their checks."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from onward.retry import OnwardError

MAX_PRIORITY = 1_000_000
MAX_UNIQUE_NAME = 10_000  # Characters of `unique`

Seconds = float | timedelta


class PublishRefused(OnwardError, ValueError):
    """Something cannot be published as it was given; nothing was written."""


def priority_problem(given: object) -> str:
    """Return what is wrong with a priority; empty: nothing."""
    if isinstance(given, int) and abs(given) <= MAX_PRIORITY:
        return ""
    return f"a priority is a whole number between -{MAX_PRIORITY:,} and {MAX_PRIORITY:,}, not {given!r:.100}"


def delay_problem(given: object) -> str:
    # An event that is due at infinity or NaN would never be claimed.
    if _is_finite(given):
        return ""
    return f"a delay is a number of seconds, or a timedelta, not {given!r:.100}"


def expires_problem(given: Any, delay: float = 0.0) -> str:
    if given is None:
        return ""
    if not _is_positive(given):
        return f"expires is a number of seconds from now, or a timedelta, more than 0, not {given!r:.100}"
    if given <= delay:
        return f"expires={given:g} is no later than delay={delay:g}: no try would begin; give a longer time"
    return ""


def _is_positive(given: Any) -> bool:
    return not isinstance(given, bool) and _is_finite(given) and given > 0


def _is_finite(given: Any) -> bool:
    try:
        return isinstance(given, int | float) and math.isfinite(given)
    except OverflowError:  # a whole number that no float can hold
        return False


def seconds_of(given: Any) -> Any:
    """Return a timedelta as seconds, and everything else unchanged."""
    return given.total_seconds() if isinstance(given, timedelta) else given


@dataclass(frozen=True, slots=True)
class PublishOptions:
    """How events are published: their source, when, before which others, until when, how often.

    `delay`, `expires` and `unique_for` may be given as a timedelta. Wrong values raise `PublishRefused`.
    """

    source: str | None = None
    delay: Seconds = 0.0
    priority: int = 0
    expires: Seconds | None = None
    unique_for: Seconds | None = None
    unique: str | None = None
    only_new: bool = False  # In a caller's transaction: nothing is published if one of the documents is stored
    # In seconds.
    due_in: float = field(init=False, default=0.0)
    expires_in: float | None = field(init=False, default=None)
    unique_seconds: float | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        delay, expires, unique_for = map(seconds_of, (self.delay, self.expires, self.unique_for))
        problem = priority_problem(self.priority) or delay_problem(delay) or expires_problem(expires, delay)
        problem = problem or _unique_problem(unique_for, self.unique)
        if problem:
            raise PublishRefused(problem)
        object.__setattr__(self, "due_in", delay)
        object.__setattr__(self, "expires_in", expires)
        object.__setattr__(self, "unique_seconds", unique_for)


def _unique_problem(unique_for: object, unique: object) -> str:
    if unique_for is not None and not _is_positive(unique_for):
        return f"unique_for is a number of seconds, or a timedelta, more than 0, not {unique_for!r:.100}"
    if unique is None:
        return ""
    if not isinstance(unique, str) or not 0 < len(unique) <= MAX_UNIQUE_NAME:
        return f"unique is a name of 1 to {MAX_UNIQUE_NAME:,} characters, not {unique!r:.100}"
    return "" if unique_for is not None else f"unique={unique!r:.100} needs a time: give unique_for=, too"


NO_OPTIONS = PublishOptions()
