"""A rung of the ladder as a drawing: tries along a time axis.

Places are in percent of the width, so that a drawing is as wide as its page and its words stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onward.facts.policies import Rung
from onward.facts.wording import duration

LEFT, RIGHT = 2.0, 92.0
"""Where an axis begins and ends; what is written at its end needs room."""
NEAR = 9.0
"""Two words closer than this would run into each other."""
TOP, ROW, FOOT = 14, 13, 30
"""Heights in pixels: above the first line, of each line, and of what is written below."""


@dataclass(frozen=True, slots=True)
class Try:
    """When a try is made: between two points in time, which are the same where nothing is random."""

    number: int
    x: float
    width: float
    y: int
    label: str
    """What is written below it; empty where it would run into another."""
    text: str
    """The whole of it, for who points at it or hears it."""

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class Schedule:
    """A rung, laid out."""

    tries: tuple[Try, ...]
    height: int
    random: bool
    endless: bool
    text: str


def draw(rung: Rung) -> Schedule | None:
    """Lay the tries of a rung out; None: it has none by itself."""
    if not rung.waits:
        return None
    earliest, latest = _sums([low for low, _ in rung.waits]), _sums([high for _, high in rung.waits])
    random = earliest != latest
    span = latest[-1] or 1.0
    tries, written = [], -NEAR
    for place, (first, last) in enumerate(zip(earliest, latest, strict=True)):
        x, end = _place(first, span), _place(last, span)
        label = _time(last) if end - written >= NEAR else ""
        written = end if label else written
        when = f"after {_time(last)}" if first == last else f"after {_time(first)} to {_time(last)}"
        text = f"Try {place + 1}: {when if place else 'at once'}"
        # What is random overlaps, so each has a line of its own.
        y = TOP + (place * ROW if random else 0)
        tries.append(Try(place + 1, x, round(end - x, 2), y, label, text))
    lines = len(tries) if random else 1
    return Schedule(
        tuple(tries), TOP + lines * ROW + FOOT, random, rung.endless, "; ".join(one.text for one in tries)
    )


def _sums(waits: Sequence[float]) -> list[float]:
    total, found = 0.0, [0.0]
    for wait in waits:
        total += wait
        found.append(total)
    return found


def _place(at: float, span: float) -> float:
    """The first waits are short, the last are long: the root lets both be seen."""
    return round(LEFT + (RIGHT - LEFT) * math.sqrt(at / span), 2)


def _time(seconds: float) -> str:
    if seconds < 1 or seconds == int(seconds):
        return f"{seconds:g} s" if seconds < 120 else duration(seconds)
    return duration(seconds)
