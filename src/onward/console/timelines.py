"""Spans of time and steps of a schedule, laid out to be drawn as SVG.

All places are in percent of the width, so that a drawing is as wide as its page and its words stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onward.model.ledger import FailedBatch
from onward.recovery.verdicts import Evidence
from onward.retry.policy import RetryPolicy
from onward.retry.redact import redact

GRAIN = 300.0
"""A drawing that ends now moves so rarely, in seconds: one that is watched is not sent every second."""
LEAST = 0.6
"""The shortest span is so wide."""
HOUR = 3600.0
WINDOWS = (HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR)
MOST_SPANS = 200
MOST_VERSIONS = 6


@dataclass(frozen=True, slots=True)
class Span:
    """A time in which something was so."""

    start: float
    end: float | None
    """None: it still is."""
    tone: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class Drawn:
    """A span at its place."""

    x: float
    width: float
    span: Span


@dataclass(frozen=True, slots=True)
class Line:
    """Everything of one thing, drawn in one line."""

    label: str
    drawn: tuple[Drawn, ...]
    lasting: bool
    """Whether its last span has not ended."""


@dataclass(frozen=True, slots=True)
class Chart:
    """Lines above each other, on one axis."""

    start: float
    end: float
    lines: tuple[Line, ...]

    @property
    def ticks(self) -> tuple[float, float, float]:
        return self.start, (self.start + self.end) / 2, self.end


def soon(now: float) -> float:
    """The end of a drawing that reaches until now."""
    return math.ceil(now / GRAIN) * GRAIN


def chart(start: float, end: float, rows: Sequence[tuple[str, Sequence[Span]]]) -> Chart:
    """Lay spans out between two points in time; what lies outside is cut off."""
    lines = []
    for label, spans in rows:
        inside = [one for one in spans if one.start < end and (one.end is None or one.end > start)][-MOST_SPANS:]
        drawn = tuple(_place(one, start, end) for one in inside)
        lines.append(Line(label, drawn, any(one.end is None for one in inside)))
    return Chart(start, end, tuple(lines))


def _place(span: Span, start: float, end: float) -> Drawn:
    scale = 100 / (end - start)
    left = max(0.0, (span.start - start) * scale)
    right = min(100.0, ((end if span.end is None else span.end) - start) * scale)
    width = max(LEAST, right - left)
    return Drawn(round(min(left, 100 - width), 2), round(width, 2), span)


def openings_chart(openings: Sequence[dict[str, object]], names: Sequence[str], now: float) -> Chart | None:
    """When the breakers of these dependencies were open, in the shortest usual window that shows it all."""
    end = soon(now)
    found: dict[str, list[Span]] = {name: [] for name in names}
    for one in openings:
        opened, closed = one["opened_at"], one["closed_at"]
        if not isinstance(opened, float | int) or (isinstance(closed, float | int) and closed < end - WINDOWS[-1]):
            continue
        closed_at = float(closed) if isinstance(closed, float | int) else None
        text = redact(str(one["reason"]))
        found.setdefault(str(one["dependency"]), []).append(
            Span(float(opened), closed_at, "bad" if closed_at is None else "warn", text)
        )
    starts = [span.start for spans in found.values() for span in spans]
    if not starts:
        return None
    window = next((one for one in WINDOWS if end - one < min(starts)), WINDOWS[-1])
    return chart(end - window, end, list(found.items()))


def evidence_chart(evidence: Evidence, now: float) -> Chart:
    """When a failure group was seen, which versions were at work, and which breakers were open."""
    group, end = evidence.group, soon(now)
    start = group.first_seen - max(2 * GRAIN, (end - group.first_seen) / 10)
    failed = Span(group.first_seen, group.last_seen, "bad", "from the first to the last failure")
    rows: list[tuple[str, list[Span]]] = [("failures", [failed])]
    for name in dict.fromkeys(one.dependency for one in evidence.openings):
        spans = [
            Span(one.opened_at, one.closed_at, "warn", redact(one.reason))
            for one in evidence.openings
            if one.dependency == name
        ]
        rows.append((f"{name} open", spans))
    shown = [one for one in evidence.versions if one.last_seen > start][-MOST_VERSIONS:]
    rows += [(one.name, [Span(one.first_seen, one.last_seen, "busy", "at work")]) for one in shown]
    return chart(start, end, rows)


# -- the schedule of a failed batch


@dataclass(frozen=True, slots=True)
class Step:
    """A retry at its place in the schedule."""

    x: float
    number: int
    minutes: str
    """How long it is waited for, in minutes."""
    state: str
    """`done`, `next` or `later`."""
    persistent: bool
    gap: bool = False
    """Retries between this one and the one before it are not drawn."""


def schedule(policy: RetryPolicy, batch: FailedBatch) -> tuple[Step, ...]:
    """The retries of a failed batch: those made, the next one, and those that would follow."""
    most = policy.persistent_from or 10
    following = batch.retry_count + 1
    numbers = [*range(1, most + 1), *([following] if following > most else [])]
    wide = 100 / len(numbers)
    return tuple(
        Step(
            round(wide * (place + 0.5), 2),
            number,
            f"{policy.backoff.bounds(number)[1] / 60:g}",
            "done" if number < following else "next" if number == following else "later",
            number >= most,
            place > 0 and number > numbers[place - 1] + 1,
        )
        for place, number in enumerate(numbers)
    )
