"""Sentences, rows and curves of simulated outages."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onward.ops.simulation.scenario import Comparison, Outcome
from onward.ops.text.format import duration, number
from onward.settings import variable

BARS = "▁▂▃▄▅▆▇█"
Points = Sequence[tuple[float, float]]


def span(seconds: float) -> str:
    """Return a time span, of some hours with its minutes: 0.2 s, 40 s, 90 min, 3 h 20 min."""
    if 0 < seconds < 10:
        return f"{seconds:.2g} s"
    minutes = round(seconds / 60)
    if 120 <= minutes < 2880 and minutes % 60:
        return f"{minutes // 60} h {minutes % 60} min"
    return duration(round(seconds))


def rate(per_second: float) -> str:
    """Return a number a second, or a minute where that is less than 1."""
    return f"{per_second:.3g}/s" if per_second >= 1 else f"{per_second * 60:.3g}/min"


def about(comparison: Comparison) -> list[str]:
    """Return what was simulated, in sentences."""
    load, what = comparison.load, comparison.dependency or "a dependency"
    calls = f"{span(load.duration)} a call"
    if load.failed_duration is not None:
        calls += f" ({span(load.failed_duration)} during the outage)"
    slots = f"{number(comparison.slots)} {'call' if comparison.slots == 1 else 'calls'} at once"
    gets = f"service {comparison.service} gets {rate(load.per_second)}, {calls}, {slots}"
    lines = [f"{what} is down for {span(comparison.outage)}; {gets}."]
    if load.failing:
        lines.append(f"{load.failing * 100:.3g} % of the documents fail whatever the dependency does.")
    if load.found_in:
        lines.append(f"The load is from {load.found_in}.")
    if (scale := max(one.scale for one in comparison.outcomes)) > 1:
        most = "up to " if len(comparison.outcomes) > 1 else ""
        lines.append(
            f"Scaled down: 1 simulated document stands for {most}{number(scale)}. Numbers are approximate."
        )
    return lines


def rows(comparison: Comparison) -> list[tuple[str, list[str]]]:
    """Return what is compared: a name, and a value of each variant."""

    def row(name: str, value: Callable[[Outcome], str]) -> tuple[str, list[str]]:
        return name, [value(one) for one in comparison.outcomes]

    def after(seconds: float | None, one: Outcome) -> str:
        return f"> {span(one.waiting[-1][0] - comparison.outage)}" if seconds is None else span(max(0.0, seconds))

    table = [row("calls in the outage", lambda one: number(one.calls_in_outage))]
    if any(one.health_calls for one in comparison.outcomes):
        table.append(row("health calls in it", lambda one: number(one.health_calls)))
    table += [
        row("first success after", lambda one: after(one.resumed_after, one)),
        row("most waiting", lambda one: number(one.most_waiting)),
        row("drained after", lambda one: after(one.drained_after, one)),
        row("most calls a second", lambda one: f"{one.peak_per_second:.3g}"),
        row("most calls a minute", lambda one: number(one.peak_per_minute)),
    ]
    if comparison.capacity is not None:
        name = f"above {rate(comparison.capacity)} for"
        table.append(row(name, lambda one: span(one.over_capacity_seconds) if one.over_capacity_seconds else "–"))
    table.append(row("given up", lambda one: number(one.given_up)))
    table.append(row("… needlessly", lambda one: number(one.given_up_needlessly)))
    return table


def notes(comparison: Comparison) -> tuple[list[str], dict[str, list[str]]]:
    """Return the notes on all variants, and those on each."""
    first, *others = comparison.outcomes
    shared = [note for note in first.notes if others and all(note in one.notes for one in others)]
    each = {one.title: [note for note in one.notes if note not in shared] for one in comparison.outcomes}
    return shared, each


def changes(outcome: Outcome) -> str:
    """Return what a variant changes, by the names that settings have; empty: nothing."""
    texts = {True: "on", False: "off"}
    words = []
    for name, value in outcome.settings.items():
        if name in ("workers", "breaker"):
            words.append(f"{name}={texts.get(value, value) if isinstance(value, bool) else value}")
        else:
            words.append(f"rate={rate(value)}" if name == "rate" else f"{variable(name)}={value:g}")
    return " ".join(words)


def end_of(comparison: Comparison) -> float:
    """Return the end of the longest simulation, from the beginning of the outage."""
    return max(one.waiting[-1][0] for one in comparison.outcomes)


def curve(points: Points, begins: float, ends: float, width: int) -> list[float]:
    """Return values at `width` equal steps of time: of each, the largest; a curve that ends early stays at 0."""
    values, last, place = [], 0.0, 0
    for column in range(width):
        until = begins + (ends - begins) * (column + 1) / width
        found = []
        while place < len(points) and points[place][0] < until:
            found.append(points[place][1])
            place += 1
        last = max(found) if found else (last if place < len(points) else 0.0)
        values.append(last)
    return values


def bars(values: Sequence[float], most: float) -> str:
    """Return values as a line of bars; a blank is 0."""
    top = len(BARS)
    return "".join(BARS[min(top, max(1, round(value / most * top))) - 1] if value > 0 else " " for value in values)
