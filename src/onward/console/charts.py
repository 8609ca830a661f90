"""Charts, laid out to be drawn as SVG: bars, the pipeline, time lines and retry schedules.

Places on time axes are in percent of the width: a chart is as wide as its page, and its text stays readable.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

from onward.console.page_templates import page_path, with_query
from onward.model.ledger import FailedBatch, Subscription
from onward.ops.lookup import PIPELINE_SERVICES
from onward.ops.queries.policies import Rung
from onward.ops.queries.status import StageStatus, SystemStatus
from onward.ops.text.format import be, counted, duration, number
from onward.recovery.evidence import Evidence, Version
from onward.retry.policy import RetryPolicy
from onward.retry.redact import redact

# -- bars: documents of a collection by status

BAR_WIDTH = 1000
MIN_SEGMENT_WIDTH = 8  # a segment of fewer documents is still wide enough to be seen
_STATUS_ORDER = ("processed", "pending", "failed", "failed_max_retries", "discarded")


@dataclass(frozen=True, slots=True)
class BarSegment:
    status: str
    count: int
    x: float
    width: float


def bar_segments(counts: Mapping[str, int]) -> list[BarSegment]:
    names = [name for name in (*_STATUS_ORDER, *sorted(counts.keys() - set(_STATUS_ORDER))) if counts.get(name)]
    total = sum(counts[name] for name in names)
    widths = {name: max(MIN_SEGMENT_WIDTH, counts[name] / total * BAR_WIDTH) for name in names}
    if names and (over := sum(widths.values()) - BAR_WIDTH) > 0:
        widest = max(widths, key=lambda name: widths[name])
        widths[widest] = max(MIN_SEGMENT_WIDTH, widths[widest] - over)
    places = accumulate(widths.values(), initial=0.0)
    return [
        BarSegment(name, counts[name], round(x, 1), round(widths[name], 1))
        for name, x in zip(names, places, strict=False)
    ]


# -- the pipeline: services as boxes

BOX_WIDTH, BOX_HEIGHT = 142, 138
BOX_GAP = 66
BOXES_IN_A_ROW = 6
# What a service has finished, where that is not the collection that it finishes.
_UNITS = {"ingestion": "sources", "parsing": "archives", "orchestration": "events"}


class ServiceBox(NamedTuple):
    stage: StageStatus
    x: int
    y: int
    takes: str  # what flows into it
    unit: str
    tone: str  # `down`, `unserved`, `idle`, `busy` or nothing
    note: str
    joined: bool  # an arrow leads to it from the box before it
    path: str  # of its documents
    page: str  # of the service; empty for events that belong to none

    @property
    def label(self) -> str:
        """Return the box as text, for screen readers."""
        stage = self.stage
        parts = (
            f"{number(stage.done)} {self.unit} done",
            f"{counted(stage.waiting, 'event')} waiting" if stage.waiting else "",
            f"{number(stage.working)} running" if stage.working else "",
            counted(stage.dead_letters, "dead letter") if stage.dead_letters else "",
            self.note,
        )
        return f"{stage.service}: " + ", ".join(filter(None, parts))


class PipelineChart(NamedTuple):
    boxes: list[ServiceBox]
    width: int
    height: int


def pipeline_chart(status: SystemStatus, subscriptions: Sequence[Subscription]) -> PipelineChart:
    """Place the services; those of the pipeline are joined by arrows, those of other apps are not."""
    subscribed = {one.service: one for one in subscriptions}
    down = {outage.dependency for outage in status.outages if outage.state == "open"}
    stages = []
    for stage in status.stages:
        # Some only follow up failures, such as orchestration.chunks: they are drawn while they have events.
        busy = stage.waiting or stage.working or stage.dead_letters
        if busy or not stage.of_pipeline or "." not in stage.service:
            stages.append(stage)
    boxes = []
    for place, stage in enumerate(stages):
        subscription = subscribed.get(stage.service)
        of_pipeline = stage.service in PIPELINE_SERVICES
        takes = (
            stage.finishes if of_pipeline and stage.finishes else subscription.event_type if subscription else ""
        )
        tone, note = _trouble(stage, subscription, down)
        boxes.append(
            ServiceBox(
                stage,
                x=1 + (place % BOXES_IN_A_ROW) * (BOX_WIDTH + BOX_GAP),
                y=1 + (place // BOXES_IN_A_ROW) * (BOX_HEIGHT + BOX_GAP),
                takes="chunks" if stage.service == "orchestration" else takes,
                unit=_UNITS.get(stage.service) or stage.finishes or "events",
                tone=tone,
                note=note,
                joined=of_pipeline
                and place % BOXES_IN_A_ROW > 0
                and stages[place - 1].service in PIPELINE_SERVICES,
                path=with_query("/documents", collection=stage.finishes) if stage.finishes else "",
                page=page_path("services", stage.service) if subscription else "",
            )
        )
    columns, rows = min(len(boxes), BOXES_IN_A_ROW), -(-len(boxes) // BOXES_IN_A_ROW)
    width, height = columns * (BOX_WIDTH + BOX_GAP), rows * (BOX_HEIGHT + BOX_GAP)
    return PipelineChart(boxes, width - BOX_GAP + 2, height - BOX_GAP + 2)


def _trouble(stage: StageStatus, subscription: Subscription | None, down: set[str]) -> tuple[str, str]:
    missing = [name for name in (subscription.needs if subscription else ()) if name in down]
    if missing:
        return "down", f"{', '.join(missing)} {be(len(missing))} down"
    if not stage.served:
        return ("unserved", "no worker runs it") if stage.waiting else ("idle", "no worker")
    return ("busy", "") if stage.working else ("", "")


# -- time lines: what was true when

END_STEP_SECONDS = 60.0  # the end of a time line moves in such steps: a live page is not sent every second
MIN_SPAN_WIDTH = 0.6
HOUR = 3600.0
WINDOWS = (HOUR, 6 * HOUR, 24 * HOUR, 7 * 24 * HOUR, 30 * 24 * HOUR)
MAX_SPANS = 200
MAX_VERSIONS = 6


class TimeSpan(NamedTuple):
    """A period in which something was true; without an end, it is still true."""

    start: float
    end: float | None
    tone: str
    text: str = ""


class DrawnSpan(NamedTuple):
    x: float
    width: float
    span: TimeSpan


class Timeline(NamedTuple):
    start: float
    end: float
    rows: tuple[tuple[str, tuple[DrawnSpan, ...]], ...]  # each with its label


def timeline(start: float, end: float, rows: Iterable[tuple[str, Sequence[TimeSpan]]]) -> Timeline:
    """Place spans between two points in time; what lies outside is cut off."""
    scale = 100 / (end - start)
    placed = []
    for label, spans in rows:
        inside = [span for span in spans if span.start < end and (span.end is None or span.end > start)]
        drawn = []
        for span in inside[-MAX_SPANS:]:
            left = max(0.0, (span.start - start) * scale)
            right = min(100.0, ((end if span.end is None else span.end) - start) * scale)
            width = max(MIN_SPAN_WIDTH, right - left)
            drawn.append(DrawnSpan(round(min(left, 100 - width), 2), round(width, 2), span))
        placed.append((label, tuple(drawn)))
    return Timeline(start, end, tuple(placed))


def _end(now: float) -> float:
    return math.ceil(now / END_STEP_SECONDS) * END_STEP_SECONDS


def breaker_timeline(openings: Sequence[Mapping[str, Any]], names: Sequence[str], now: float) -> Timeline | None:
    """Return when the breakers of these dependencies were open, in the shortest window that shows all of it."""
    end = _end(now)
    found: dict[str, list[TimeSpan]] = {name: [] for name in names}
    for one in openings:
        closed = one["closed_at"]
        if closed is None or closed >= end - WINDOWS[-1]:
            span = TimeSpan(one["opened_at"], closed, "bad" if closed is None else "warn", redact(one["reason"]))
            found.setdefault(one["dependency"], []).append(span)
    first = min((span.start for spans in found.values() for span in spans), default=None)
    if first is None:
        return None
    window = next((window for window in WINDOWS if end - window < first), WINDOWS[-1])
    return timeline(end - window, end, found.items())


def _ran_until(version: Version, evidence: Evidence) -> float | None:
    """Return when the next version took over; None if there is none. A version is seen when its workers start."""
    later = (one.first_seen for one in evidence.versions if one.first_seen > version.last_seen)
    return min(later, default=None)


def failure_timeline(evidence: Evidence, now: float) -> Timeline:
    """Return when a failure group was seen, which versions ran, and which breakers were open."""
    group, end = evidence.group, _end(now)
    start = group.first_seen - max(2 * END_STEP_SECONDS, (end - group.first_seen) / 10)
    failed = TimeSpan(group.first_seen, group.last_seen, "bad", "from the first to the last failure")
    opened: dict[str, list[TimeSpan]] = {}
    for one in evidence.openings:
        span = TimeSpan(one.opened_at, one.closed_at, "warn", redact(one.reason))
        opened.setdefault(f"{one.dependency} open", []).append(span)
    shown = [version for version in evidence.versions if version.last_seen > start][-MAX_VERSIONS:]
    ran = [(one.name, [TimeSpan(one.first_seen, _ran_until(one, evidence), "busy", "running")]) for one in shown]
    return timeline(start, end, [("failures", [failed]), *opened.items(), *ran])


# -- the retries of a failed batch


class BatchRetry(NamedTuple):
    x: float
    number: int
    minutes: str  # the wait before it
    state: str  # `done`, `next` or `later`
    persistent: bool
    gap: bool  # retries between this one and the one before it are not drawn


def batch_retries(policy: RetryPolicy, batch: FailedBatch) -> tuple[BatchRetry, ...]:
    """Return the retries of a failed batch: those made, the next one, and those that would follow."""
    most = policy.persistent_from or 10
    following = batch.retry_count + 1
    numbers = [*range(1, most + 1), *([following] if following > most else [])]
    return tuple(
        BatchRetry(
            round(100 / len(numbers) * (place + 0.5), 2),
            number,
            f"{policy.backoff.bounds(number)[1] / 60:g}",
            "done" if number < following else "next" if number == following else "later",
            number >= most,
            place > 0 and number > numbers[place - 1] + 1,
        )
        for place, number in enumerate(numbers)
    )


# -- the tries of a rung of the retry ladder

AXIS_LEFT, AXIS_RIGHT = 2.0, 92.0  # the text at the end of the axis needs room
MIN_LABEL_DISTANCE = 9.0
TOP, ROW, FOOT = 14, 13, 30  # pixels above the first row, of each row, and of the labels below


class TryMark(NamedTuple):
    """A try, drawn between its earliest and its latest time, which are the same where nothing is random."""

    number: int
    x: float
    width: float
    y: int
    label: str  # what is written below it; empty where it would overlap another label
    text: str  # all of it, for a tooltip and for screen readers


class LadderSchedule(NamedTuple):
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

    def axis_place(at: float) -> float:
        # The square root lets both the short first and the long last waits be seen.
        return round(AXIS_LEFT + (AXIS_RIGHT - AXIS_LEFT) * math.sqrt(at / (latest[-1] or 1.0)), 2)

    tries, written = [], -MIN_LABEL_DISTANCE
    for place, (first, last) in enumerate(zip(earliest, latest, strict=True)):
        x, end = axis_place(first), axis_place(last)
        label = _wait(last) if end - written >= MIN_LABEL_DISTANCE else ""
        written = end if label else written
        when = f"after {_wait(last)}" if first == last else f"after {_wait(first)} to {_wait(last)}"
        text = f"Try {place + 1}: {when if place else 'at once'}"
        # Random times overlap, so each try has a row of its own.
        y = TOP + (place * ROW if random else 0)
        tries.append(TryMark(place + 1, x, round(end - x, 2), y, label, text))
    height = TOP + (len(tries) if random else 1) * ROW + FOOT
    return LadderSchedule(tuple(tries), height, random, rung.endless, "; ".join(mark.text for mark in tries))


def _wait(seconds: float) -> str:
    whole = seconds < 1 or seconds == int(seconds)
    return f"{seconds:g} s" if whole and seconds < 120 else duration(seconds)
