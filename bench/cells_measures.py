"""What the records of a cell say: rates, latencies, what was lost or done twice, and when all was well again."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bench.cells_records import Records
from bench.cells_run import CellRun, Phase

RECOVERED_SHARE = 0.9
"""A queue has recovered in the first second with this share of its clean rate: the public definition."""
LATE_SECONDS = 30.0
"""Latency under pressure is that of the last seconds before it ends: it grows with the age of a snapshot."""
FIRST_SECOND = 1.0  # a flood needs it to build its backlog up


@dataclass(frozen=True, slots=True)
class Latency:
    """Milliseconds from the offer of an event to the effect of its handler."""

    p50: float
    p95: float
    longest: float


@dataclass(frozen=True, slots=True)
class Chaos:
    """What a chaos cell measures."""

    offered: int
    unknown: int
    completed: int
    waiting: int
    lost: int
    doubled_effects: int
    doubled_commits: int | None
    recovery_seconds: float | None
    longest_wait_seconds: float
    recovered: float


@dataclass(frozen=True, slots=True)
class Pressure:
    """What a pressure cell measures; `rate` is at the offered rate, `capacity` with a backlog that is kept up."""

    clean_rate: float
    rate: float
    clean_capacity: float
    capacity: float
    clean: Latency
    latency: Latency
    recovery: Latency
    peak_dead: int
    dead_at_end: int
    lost: int
    doubled_effects: int


def effects_per_second(effects: Records, begun: float, ended: float) -> float:
    """Return the rate of effects between two moments; a second effect of an event does not count."""
    at = first_effects(effects)["at"]
    return float(np.count_nonzero((at >= begun) & (at < ended))) / max(ended - begun, 1e-9)


def first_effects(effects: Records) -> Records:
    """Return the first effect of each event, by number."""
    if not len(effects):
        return effects
    ordered = effects[np.argsort(effects["at"], kind="stable")]
    _, places = np.unique(ordered["number"], return_index=True)
    return ordered[places]


def latency(offers: Records, effects: Records, begun: float, ended: float) -> Latency:
    """Return the latency of what was acknowledged between two moments; what has no effect yet waits till now."""
    chosen = offers[(offers["at"] >= begun) & (offers["at"] < ended) & (offers["acknowledged"] > 0)]
    if not len(chosen):
        return Latency(float("nan"), float("nan"), float("nan"))
    waits = waiting_times(chosen, effects) * 1000
    p50, p95 = np.percentile(waits, [50, 95])
    return Latency(float(p50), float(p95), float(waits.max()))


def waiting_times(offers: Records, effects: Records) -> NDArray[np.float64]:
    """Return the seconds between offer and first effect; without an effect, till the last effect of all."""
    first = first_effects(effects)
    if not len(first):
        return np.full(len(offers), np.inf)
    places = np.clip(np.searchsorted(first["number"], offers["number"]), 0, len(first) - 1)
    known = first["number"][places] == offers["number"]
    until: NDArray[np.float64] = np.where(known, first["at"][places], first["at"].max())
    waits: NDArray[np.float64] = np.maximum(until - offers["at"], 0.0)
    return waits


def chaos(run: CellRun) -> Chaos:
    """Return what a chaos cell measures."""
    acknowledged = run.offers[run.offers["acknowledged"] > 0]
    completed = np.isin(acknowledged["number"], run.effects["number"])
    missing = int(len(acknowledged) - np.count_nonzero(completed))
    clean, recovery = run.phase("clean"), run.phase("recovery")
    base = float(np.median(rates_by_second(run, clean)))
    relieved = run.times.get("up", run.phase("disturbed").ended)
    after = Phase("after", relieved, recovery.ended)
    enough = np.flatnonzero(rates_by_second(run, after) >= RECOVERED_SHARE * base)
    return Chaos(
        offered=len(acknowledged),
        unknown=len(run.offers) - len(acknowledged),
        completed=int(np.count_nonzero(completed)),
        waiting=run.standing.unfinished,
        lost=max(0, missing - run.standing.unfinished),
        doubled_effects=len(run.effects) - len(first_effects(run.effects)),
        doubled_commits=run.standing.doubled_commits,
        recovery_seconds=float(enough[0]) if len(enough) else None,
        longest_wait_seconds=float(waiting_times(acknowledged, run.effects).max(initial=0.0)),
        recovered=float(np.median(rates_by_second(run, recovery))) / base if base else 0.0,
    )


def pressure(run: CellRun) -> Pressure:
    """Return what a pressure cell measures."""
    clean, disturbed, recovery = (run.phase(name) for name in ("clean", "disturbed", "recovery"))
    late = max(disturbed.begun, disturbed.ended - LATE_SECONDS)
    recovered = (recovery.begun + recovery.ended) / 2
    acknowledged = run.offers[run.offers["acknowledged"] > 0]
    missing = int(np.count_nonzero(~np.isin(acknowledged["number"], run.effects["number"])))
    under = [sample.dead for sample in run.watch.samples if disturbed.begun <= sample.at <= recovery.begun]
    return Pressure(
        clean_rate=effects_per_second(run.effects, clean.begun, clean.ended),
        rate=effects_per_second(run.effects, late, disturbed.ended),
        clean_capacity=_capacity(run, run.phase("clean flood")),
        capacity=_capacity(run, run.phase("disturbed flood")),
        clean=latency(run.offers, run.effects, clean.begun, clean.ended),
        latency=latency(run.offers, run.effects, late, disturbed.ended),
        recovery=latency(run.offers, run.effects, recovered, recovery.ended),
        peak_dead=max(under, default=0),
        dead_at_end=run.watch.samples[-1].dead if run.watch.samples else 0,
        lost=max(0, missing - run.standing.unfinished),
        doubled_effects=len(run.effects) - len(first_effects(run.effects)),
    )


def rates_by_second(run: CellRun, phase: Phase) -> NDArray[np.float64]:
    """Return the effects in each whole second of a phase."""
    return windows(run, phase, 1.0)


def windows(run: CellRun, phase: Phase, seconds: float) -> NDArray[np.float64]:
    """Return the effects per second in each window of a phase."""
    edges = np.arange(phase.begun, phase.ended, seconds)
    if len(edges) < 2:
        edges = np.array([phase.begun, phase.ended])
    counts, _ = np.histogram(first_effects(run.effects)["at"], edges)
    return counts / np.diff(edges)


def _capacity(run: CellRun, flood: Phase) -> float:
    begun = min(flood.begun + FIRST_SECOND, (flood.begun + flood.ended) / 2)
    return effects_per_second(run.effects, begun, flood.ended)
