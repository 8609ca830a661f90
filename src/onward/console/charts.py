"""Charts, laid out to be drawn as SVG: bars, the pipeline, time lines and retry schedules.

Places on time axes are in percent of the width: a chart is as wide as its page, and its text stays readable.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from urllib.parse import urlencode

from onward.model.ledger import FailedBatch, Subscription
from onward.ops.lookup import PIPELINE_SERVICES
from onward.ops.queries.policies import Rung
from onward.ops.queries.status import StageStatus, SystemStatus
from onward.ops.text.format import be, counted, duration, number
from onward.recovery.diagnosis import Evidence
from onward.retry.policy import RetryPolicy
from onward.retry.redact import redact

# -- bars: documents of a collection by status

BAR_WIDTH = 1000
MIN_SEGMENT_WIDTH = 8
"""A segment of fewer documents is still wide enough to be seen."""
_STATUS_ORDER = ("processed", "pending", "failed", "failed_max_retries", "discarded")


@dataclass(frozen=True, slots=True)
class BarSegment:
    """One status of a bar."""

    status: str
    count: int
    x: float
    width: float


def bar_segments(counts: Mapping[str, int]) -> list[BarSegment]:
    """Return the segments of a bar, side by side."""
    known = [status for status in _STATUS_ORDER if counts.get(status)]
    names = known + sorted(status for status in counts if status not in _STATUS_ORDER and counts[status])
    total = sum(counts[name] for name in names)
    widths = {name: max(MIN_SEGMENT_WIDTH, counts[name] / total * BAR_WIDTH) for name in names}
    if names and (over := sum(widths.values()) - BAR_WIDTH) > 0:
        widest = max(widths, key=lambda name: widths[name])
        widths[widest] = max(MIN_SEGMENT_WIDTH, widths[widest] - over)
    segments, x = [], 0.0
    for name in names:
        segments.append(BarSegment(name, counts[name], round(x, 1), round(widths[name], 1)))
        x += widths[name]
    return segments


# -- the pipeline: services as boxes

BOX_WIDTH, BOX_HEIGHT = 142, 138
BOX_GAP = 66
BOXES_IN_A_ROW = 6
_UNITS = {"ingestion": "sources", "parsing": "archives", "orchestration": "events"}
"""What a service has finished, where that is not the collection that it finishes."""


@dataclass(frozen=True, slots=True)
class ServiceBox:
    """A service, and its place in the chart."""

    stage: StageStatus
    x: int
    y: int
    takes: str
    """What flows into it."""
    unit: str
    tone: str
    """`down`, `unserved`, `idle`, `busy` or nothing."""
    note: str
    joined: bool
    """An arrow leads to it from the box before it."""
    path: str

    @property
    def label(self) -> str:
        """Return the box as text, for screen readers."""
        stage = self.stage
        parts = [f"{number(stage.done)} {self.unit} done"]
        parts += [f"{counted(stage.waiting, 'event')} waiting"] if stage.waiting else []
        parts += [f"{number(stage.working)} running"] if stage.working else []
        parts += [counted(stage.dead_letters, "dead letter")] if stage.dead_letters else []
        return f"{stage.service}: " + ", ".join([*parts, self.note] if self.note else parts)


@dataclass(frozen=True, slots=True)
class PipelineChart:
    """All boxes, and the size of the chart."""

    boxes: list[ServiceBox]
    width: int
    height: int


def pipeline_chart(status: SystemStatus, subscriptions: Sequence[Subscription]) -> PipelineChart:
    """Place the services; those of the pipeline are joined by arrows, those of other apps are not."""
    subscribed = {one.service: one for one in subscriptions}
    down = {outage.dependency for outage in status.outages if outage.state == "open"}
    stages = [stage for stage in status.stages if not _is_idle_follow_up(stage)]
    boxes = []
    for place, stage in enumerate(stages):
        subscription = subscribed.get(stage.service)
        before = stages[place - 1].service if place % BOXES_IN_A_ROW else ""
        tone, note = _trouble(stage, subscription, down)
        boxes.append(
            ServiceBox(
                stage,
                x=1 + (place % BOXES_IN_A_ROW) * (BOX_WIDTH + BOX_GAP),
                y=1 + (place // BOXES_IN_A_ROW) * (BOX_HEIGHT + BOX_GAP),
                takes=_takes(stage, subscription),
                unit=_UNITS.get(stage.service) or stage.finishes or "events",
                tone=tone,
                note=note,
                joined=stage.service in PIPELINE_SERVICES and before in PIPELINE_SERVICES,
                path="/documents?" + urlencode({"collection": stage.finishes}) if stage.finishes else "",
            )
        )
    columns, rows = min(len(boxes), BOXES_IN_A_ROW), -(-len(boxes) // BOXES_IN_A_ROW)
    width, height = columns * (BOX_WIDTH + BOX_GAP), rows * (BOX_HEIGHT + BOX_GAP)
    return PipelineChart(boxes, width - BOX_GAP + 2, height - BOX_GAP + 2)


def _is_idle_follow_up(stage: StageStatus) -> bool:
    """Return whether a stage only follows up failures, such as orchestration.chunks, and has no events now."""
    busy = stage.waiting or stage.working or stage.dead_letters
    return stage.of_pipeline and "." in stage.service and not busy


def _trouble(stage: StageStatus, subscription: Subscription | None, down: set[str]) -> tuple[str, str]:
    missing = [name for name in (subscription.needs if subscription else ()) if name in down]
    if missing:
        return "down", f"{', '.join(missing)} {be(len(missing))} down"
    if not stage.served:
        return ("unserved", "no worker runs it") if stage.waiting else ("idle", "no worker")
    return ("busy", "") if stage.working else ("", "")


def _takes(stage: StageStatus, subscription: Subscription | None) -> str:
    if stage.service == "orchestration":
        return "chunks"
    if stage.service in PIPELINE_SERVICES and stage.finishes:
        return stage.finishes
    return subscription.event_type if subscription else ""


# -- time lines: what was true when

END_STEP_SECONDS = 300.0
"""The end of a time line moves in steps of this length, so that a live page is not sent every second."""
MIN_SPAN_WIDTH = 0.6
HOUR = 3600.0
WINDOWS = (HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR)
MAX_SPANS = 200
MAX_VERSIONS = 6


@dataclass(frozen=True, slots=True)
class TimeSpan:
    """A period in which something was true."""

    start: float
    end: float | None
    """None: it is still true."""
    tone: str
    text: str = ""


@dataclass(frozen=True, slots=True)
class DrawnSpan:
    """A span and its place."""

    x: float
    width: float
    span: TimeSpan


@dataclass(frozen=True, slots=True)
class TimelineRow:
    """The spans of one thing."""

    label: str
    drawn: tuple[DrawnSpan, ...]
    lasting: bool
    """Whether its last span has not ended."""


@dataclass(frozen=True, slots=True)
class Timeline:
    """Rows on one time axis."""

    start: float
    end: float
    rows: tuple[TimelineRow, ...]

    @property
    def ticks(self) -> tuple[float, float, float]:
        return self.start, (self.start + self.end) / 2, self.end


def timeline(start: float, end: float, rows: Sequence[tuple[str, Sequence[TimeSpan]]]) -> Timeline:
    """Place spans between two points in time; what lies outside is cut off."""
    drawn = []
    for label, spans in rows:
        inside = [span for span in spans if span.start < end and (span.end is None or span.end > start)][
            -MAX_SPANS:
        ]
        lasting = any(span.end is None for span in inside)
        drawn.append(TimelineRow(label, tuple(_drawn(span, start, end) for span in inside), lasting))
    return Timeline(start, end, tuple(drawn))


def _drawn(span: TimeSpan, start: float, end: float) -> DrawnSpan:
    scale = 100 / (end - start)
    left = max(0.0, (span.start - start) * scale)
    right = min(100.0, ((end if span.end is None else span.end) - start) * scale)
    width = max(MIN_SPAN_WIDTH, right - left)
    return DrawnSpan(round(min(left, 100 - width), 2), round(width, 2), span)


def _end(now: float) -> float:
    return math.ceil(now / END_STEP_SECONDS) * END_STEP_SECONDS


def breaker_timeline(openings: Sequence[dict[str, object]], names: Sequence[str], now: float) -> Timeline | None:
    """Return when the breakers of these dependencies were open, in the shortest window that shows all of it."""
    end = _end(now)
    found: dict[str, list[TimeSpan]] = {name: [] for name in names}
    for opening in openings:
        opened, closed = opening["opened_at"], opening["closed_at"]
        if not isinstance(opened, float | int) or (isinstance(closed, float | int) and closed < end - WINDOWS[-1]):
            continue
        closed_at = float(closed) if isinstance(closed, float | int) else None
        tone = "bad" if closed_at is None else "warn"
        span = TimeSpan(float(opened), closed_at, tone, redact(str(opening["reason"])))
        found.setdefault(str(opening["dependency"]), []).append(span)
    starts = [span.start for spans in found.values() for span in spans]
    if not starts:
        return None
    window = next((window for window in WINDOWS if end - window < min(starts)), WINDOWS[-1])
    return timeline(end - window, end, list(found.items()))


def failure_timeline(evidence: Evidence, now: float) -> Timeline:
    """Return when a failure group was seen, which versions ran, and which breakers were open."""
    group, end = evidence.group, _end(now)
    start = group.first_seen - max(2 * END_STEP_SECONDS, (end - group.first_seen) / 10)
    failed = TimeSpan(group.first_seen, group.last_seen, "bad", "from the first to the last failure")
    rows: list[tuple[str, list[TimeSpan]]] = [("failures", [failed])]
    for name in dict.fromkeys(opening.dependency for opening in evidence.openings):
        spans = [
            TimeSpan(opening.opened_at, opening.closed_at, "warn", redact(opening.reason))
            for opening in evidence.openings
            if opening.dependency == name
        ]
        rows.append((f"{name} open", spans))
    shown = [version for version in evidence.versions if version.last_seen > start][-MAX_VERSIONS:]
    rows += [(one.name, [TimeSpan(one.first_seen, one.last_seen, "busy", "running")]) for one in shown]
    return timeline(start, end, rows)


# -- the retries of a failed batch


@dataclass(frozen=True, slots=True)
class BatchRetry:
    """A retry of a failed batch, and its place."""

    x: float
    number: int
    minutes: str
    """The wait before it."""
    state: str
    """`done`, `next` or `later`."""
    persistent: bool
    gap: bool = False
    """Retries between this one and the one before it are not drawn."""


def batch_retries(policy: RetryPolicy, batch: FailedBatch) -> tuple[BatchRetry, ...]:
    """Return the retries of a failed batch: those made, the next one, and those that would follow."""
    most = policy.persistent_from or 10
    following = batch.retry_count + 1
    numbers = [*range(1, most + 1), *([following] if following > most else [])]
    width = 100 / len(numbers)
    return tuple(
        BatchRetry(
            round(width * (place + 0.5), 2),
            number,
            f"{policy.backoff.bounds(number)[1] / 60:g}",
            "done" if number < following else "next" if number == following else "later",
            number >= most,
            place > 0 and number > numbers[place - 1] + 1,
        )
        for place, number in enumerate(numbers)
    )


# -- the tries of a rung of the retry ladder

AXIS_LEFT, AXIS_RIGHT = 2.0, 92.0
"""The text at the end of the axis needs room."""
MIN_LABEL_DISTANCE = 9.0
TOP, ROW, FOOT = 14, 13, 30
"""Heights in pixels: above the first row, of each row, and of the labels below."""


@dataclass(frozen=True, slots=True)
class TryMark:
    """A try, drawn between its earliest and its latest time, which are the same where nothing is random."""

    number: int
    x: float
    width: float
    y: int
    label: str
    """What is written below it; empty where it would overlap another label."""
    text: str
    """All of it, for a tooltip and for screen readers."""

    @property
    def middle(self) -> float:
        return self.x + self.width / 2


@dataclass(frozen=True, slots=True)
class LadderSchedule:
    """The tries of a rung."""

    tries: tuple[TryMark, ...]
    height: int
    random: bool
    endless: bool
    text: str


def ladder_schedule(rung: Rung) -> LadderSchedule | None:
    """Place the tries of a rung; None: it makes none by itself."""
    if not rung.waits:
        return None
    earliest = list(accumulate((low for low, _ in rung.waits), initial=0.0))
    latest = list(accumulate((high for _, high in rung.waits), initial=0.0))
    random = earliest != latest
    longest = latest[-1] or 1.0
    tries, written = [], -MIN_LABEL_DISTANCE
    for place, (first, last) in enumerate(zip(earliest, latest, strict=True)):
        x, end = _axis_place(first, longest), _axis_place(last, longest)
        label = _wait(last) if end - written >= MIN_LABEL_DISTANCE else ""
        written = end if label else written
        when = f"after {_wait(last)}" if first == last else f"after {_wait(first)} to {_wait(last)}"
        text = f"Try {place + 1}: {when if place else 'at once'}"
        # Random times overlap, so each try has a row of its own.
        y = TOP + (place * ROW if random else 0)
        tries.append(TryMark(place + 1, x, round(end - x, 2), y, label, text))
    height = TOP + (len(tries) if random else 1) * ROW + FOOT
    return LadderSchedule(tuple(tries), height, random, rung.endless, "; ".join(mark.text for mark in tries))


def _axis_place(at: float, longest: float) -> float:
    """Return the place on the axis; the square root lets both the short first and the long last waits be seen."""
    return round(AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * math.sqrt(at / longest), 2)


def _wait(seconds: float) -> str:
    whole = seconds < 1 or seconds == int(seconds)
    return f"{seconds:g} s" if whole and seconds < 120 else duration(seconds)
