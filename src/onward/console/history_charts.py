"""Charts of what services did over time: four panels under each other, with one time axis.

The drawing is as wide as its page. A bucket is one unit wide, a panel `PANEL` units high. The style sheet gives
each panel its height, so that labels beside it need no place in the drawing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import NamedTuple

from onward.console.page_templates import with_query
from onward.console.time_zone import local
from onward.model.rollups import HOUR, ServiceCounts
from onward.ops.bad_input import BadInput
from onward.ops.queries.service_history import P95, RANGES, HistoryPoint, ServiceHistory, TimeRange
from onward.ops.text.format import number, one_line, whole_duration
from onward.ops.text.service_history import history_sentences, latency, point_text

PANEL = 100  # units of a panel, of which bars take those from `TOP` to `BASE`
TOP, BASE = 12, 96
MIN_BAR = 1.5  # a bar of a value above 0 can be seen, however high the others are
MIN_MARK = 0.3  # buckets that the narrowest outage takes
LABELS = 4  # points in time below the charts, beside "now"
MAX_MARKS = 8  # outages and deploys that are listed; the charts have all

Value = Callable[[ServiceCounts], float | None]


class Bar(NamedTuple):
    x: int
    y: float
    height: float


class Panel(NamedTuple):
    title: str
    about: str
    top: str  # the value at the upper end
    tone: str
    base: int
    bars: tuple[Bar, ...]
    inner: tuple[Bar, ...]  # a part of each bar: the mean in the 95th percentile, dead letters in failures


class Column(NamedTuple):
    """A bucket over the height of all panels, for its tooltip."""

    x: int
    text: str


class Mark(NamedTuple):
    kind: str  # `outage` or `deploy`
    x: float
    width: float
    at: float
    text: str


class RangeLink(NamedTuple):
    name: str
    path: str
    current: bool


class HistoryChart(NamedTuple):
    width: int
    panels: tuple[Panel, ...]
    columns: tuple[Column, ...]
    runs: tuple[tuple[int, int], ...]  # first and last bucket of each time in which a worker ran
    marks: tuple[Mark, ...]
    listed: tuple[Mark, ...]  # the latest first
    labels: tuple[str, ...]
    sentences: list[str]
    ranges: tuple[RangeLink, ...]
    refresh: str  # the path of the same chart, made anew
    is_empty: bool


def read_range(name: str) -> TimeRange:
    """Return the time range of this name, the last hour by default; refuse another name."""
    found = RANGES.get(name or "1h")
    if found is None:
        raise BadInput(f"{one_line(name, 40)!r} is no time range; there are {', '.join(RANGES)}")
    return found


def history_chart(history: ServiceHistory, page: str) -> HistoryChart:
    """Place the buckets of a time range; `page` is the path of the page that has the chart."""
    points, step = history.points, history.over.step
    rates = [point.rate(history.unit) for point in points]
    a_minute = max((one for one in rates if one is not None), default=0.0) < 1
    unit = f"{history.unit} a {'minute' if a_minute else 'second'}"
    factor = 60 if a_minute else 1
    p95, mean = (_values(points, value) for value in (_p95, _mean))
    failures, dead = (_values(points, attrgetter(name)) for name in ("failures", "dead_letters"))
    waiting = _values(points, attrgetter("waiting"))
    panels = (
        _panel(0, "Rate", unit, "rate", _short, [None if one is None else one * factor for one in rates]),
        _panel(1, "Latency", "p95 and mean", "latency", latency, p95, mean),
        _panel(2, "Failures", "and dead letters", "failures", number, failures, dead),
        _panel(3, "Waiting", "events", "waiting", number, waiting),
    )
    marks = _marks(history)
    return HistoryChart(
        len(points),
        panels,
        tuple(
            Column(x, f"{_span(point.start, step)}: {point_text(history, point)}")
            for x, point in enumerate(points)
        ),
        tuple(_runs(points)),
        marks,
        tuple(sorted(marks, key=lambda mark: -mark.at))[:MAX_MARKS],
        tuple(_label(history.start + place * history.over.seconds / LABELS, step) for place in range(LABELS)),
        history_sentences(history),
        tuple(RangeLink(name, with_query(page, range=name), name == history.over.name) for name in RANGES),
        with_query("/history", service=history.service, range=history.over.name),
        all(point.counts is None for point in points),
    )


def _p95(counts: ServiceCounts) -> float | None:
    return counts.quantile_seconds(P95)


def _mean(counts: ServiceCounts) -> float | None:
    return counts.mean_seconds


def _values(points: Sequence[HistoryPoint], value: Value) -> list[float | None]:
    return [None if point.counts is None else value(point.counts) for point in points]


def _panel(
    place: int,
    title: str,
    about: str,
    tone: str,
    show: Callable[[float], str],
    values: Sequence[float | None],
    inner: Sequence[float | None] = (),
) -> Panel:
    most = max((one for one in values if one is not None), default=0.0)
    base = place * PANEL + BASE

    def bars(given: Sequence[float | None]) -> tuple[Bar, ...]:
        heights = [(x, max(MIN_BAR, one / most * (BASE - TOP))) for x, one in enumerate(given) if one]
        return tuple(Bar(x, round(base - height, 1), round(height, 1)) for x, height in heights)

    return Panel(title, about, show(most) if most else "0", tone, base, bars(values), bars(inner))


def _short(value: float) -> str:
    return number(value) if value >= 10 or value == int(value) else f"{value:.1f}"


def _runs(points: Sequence[HistoryPoint]) -> list[tuple[int, int]]:
    runs: list[tuple[int, int]] = []
    for x, point in enumerate(points):
        if point.counts is None:
            continue
        if runs and runs[-1][1] == x:
            runs[-1] = (runs[-1][0], x + 1)
        else:
            runs.append((x, x + 1))
    return runs


def _marks(history: ServiceHistory) -> tuple[Mark, ...]:
    step, end = history.over.step, history.start + history.over.seconds
    marks = []
    for one in history.outages:
        closed = history.end if one.closed_at is None else one.closed_at
        left, right = (max(0.0, (at - history.start) / step) for at in (one.opened_at, min(closed, end)))
        lasting = "is down" if one.closed_at is None else f"was down for {whole_duration(closed - one.opened_at)}"
        text = f"{one_line(one.dependency, 60)} {lasting}{f': {one_line(one.reason, 200)}' if one.reason else ''}"
        marks.append(Mark("outage", round(left, 2), round(max(MIN_MARK, right - left), 2), one.opened_at, text))
    for version, first_seen in history.deploys:
        x = round((first_seen - history.start) / step, 2)
        marks.append(Mark("deploy", x, 0.0, first_seen, f"{one_line(version, 80)} ran for the first time"))
    return tuple(marks)


def _label(at: float, step: int) -> str:
    there = local(at)
    return there.strftime("%a %d" if step >= HOUR else "%H:%M") if there else ""


def _span(start: float, step: int) -> str:
    there, until = local(start), local(start + step)
    return f"{there:%a %H:%M} to {until:%H:%M}" if there and until else ""
