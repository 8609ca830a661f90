"""The tables of the cells, and a closer look at one run: windows of seconds, tables, statements."""

from __future__ import annotations

from collections.abc import Sequence

import click
import numpy as np

from bench.cells_measures import Latency, chaos, effects_per_second, latency, pressure
from bench.cells_run import CellRun
from bench.table import Sheet

WINDOW_SECONDS = 5.0
MOST_TABLES = 5
LONGEST_STATEMENT = 150

CHAOS = (
    "chaos", "who", "offered/s", "offered", "completed", "waiting", "lost", "doubled effects", "doubled commits",
    "recovered after s", "longest wait s", "recovered", "note",
)  # fmt: skip
PRESSURE = (
    "pressure", "who", "offered/s", "done/s", "p50 ms", "p95 ms", "capacity/s", "capacity kept", "p50, p95 after",
    "dead rows, peak", "dead rows, end", "lost", "doubled effects",
)  # fmt: skip


def sheets(runs: Sequence[CellRun]) -> list[Sheet]:
    """Return a table of the chaos cells and one of the pressure cells, with the columns that they measure."""
    made = []
    if rows := [_chaos_row(run) for run in runs if run.cell.chaos]:
        made.append(Sheet("Chaos", CHAOS, rows, labels=2))
    if rows := [_pressure_row(run) for run in runs if not run.cell.chaos]:
        made.append(Sheet("Pressure", PRESSURE, rows, labels=2))
    return made


def _chaos_row(run: CellRun) -> list[str]:
    found = chaos(run)
    notes = [*run.notes, *([f"{found.unknown:,} not acknowledged"] if found.unknown else [])]
    return [
        run.cell.title,
        run.peer,
        f"{run.rate:,.0f}",
        f"{found.offered:,}",
        f"{found.completed:,}",
        f"{found.waiting:,}",
        f"{found.lost:,}",
        f"{found.doubled_effects:,}",
        "" if found.doubled_commits is None else f"{found.doubled_commits:,}",
        "never" if found.recovery_seconds is None else f"{found.recovery_seconds:.0f}",
        f"{found.longest_wait_seconds:.1f}",
        f"{found.recovered:.0%}",
        "; ".join(notes),
    ]


def _pressure_row(run: CellRun) -> list[str]:
    found = pressure(run)
    kept = found.capacity / found.clean_capacity if found.clean_capacity else 0.0
    return [
        run.cell.title,
        run.peer,
        f"{run.rate:,.0f}",
        f"{found.clean_rate:,.0f} → {found.rate:,.0f}",
        f"{_ms(found.clean.p50)} → {_ms(found.latency.p50)}",
        f"{_ms(found.clean.p95)} → {_ms(found.latency.p95)}",
        f"{found.clean_capacity:,.0f} → {found.capacity:,.0f}",
        f"{kept:.0%}",
        f"{_ms(found.recovery.p50)}, {_ms(found.recovery.p95)}",
        f"{found.peak_dead:,}",
        f"{found.dead_at_end:,}",
        f"{found.lost:,}",
        f"{found.doubled_effects:,}",
    ]


def _ms(milliseconds: float) -> str:
    return "–" if np.isnan(milliseconds) else f"{milliseconds:,.0f}"


def print_details(run: CellRun) -> None:
    """Print what happened in windows of seconds, the rows of the busiest tables, and the dearest statements."""
    click.echo(f"\n{run.cell.name}, {run.peer}: {run.rate:,.0f} offered per second")
    last = {name: dead for sample in run.watch.samples for name, (_, dead) in sample.tables.items() if dead}
    peaks = {name: max(sample.tables.get(name, (0, 0))[1] for sample in run.watch.samples) for name in last}
    shown = sorted(peaks, key=lambda name: -peaks[name])[:MOST_TABLES]
    click.echo(
        f"{'s':>5} {'phase':<16}{'offered/s':>10}{'done/s':>8}{'p50 ms':>9}{'p95 ms':>9}{'dead':>10}  "
        + "  ".join(f"{name} (live/dead)" for name in shown)
    )
    start = run.phases[0].begun
    acknowledged = run.offers[run.offers["acknowledged"] > 0]
    for phase in run.phases:
        for begun in np.arange(phase.begun, phase.ended, WINDOW_SECONDS):
            ended = min(begun + WINDOW_SECONDS, phase.ended)
            if ended - begun < WINDOW_SECONDS / 5 and begun > phase.begun:
                continue
            at = acknowledged["at"]
            offered = np.count_nonzero((at >= begun) & (at < ended)) / (ended - begun)
            done = effects_per_second(run.effects, begun, ended)
            wait: Latency = latency(run.offers, run.effects, begun, ended)
            sample = next((one for one in reversed(run.watch.samples) if one.at <= ended), None)
            tables = sample.tables if sample else {}
            click.echo(
                f"{begun - start:>5.0f} {phase.name:<16}{offered:>10,.0f}{done:>8,.0f}{_ms(wait.p50):>9}"
                f"{_ms(wait.p95):>9}{sample.dead if sample else 0:>10,}  "
                + "  ".join("{:,}/{:,}".format(*tables.get(name, (0, 0))) for name in shown)
            )
    for name, statements in run.watch.statements.items():
        total = sum(one.milliseconds for one in statements)
        seconds = next((one.ended - one.begun for one in run.phases if one.name == name), 0.0)
        click.echo(
            f"\nstatements while {name} ({seconds:.0f} s; these {total / 1000:.1f} s of the server's time):"
        )
        click.echo(f"{'total ms':>10}{'calls':>9}{'mean ms':>9}{'rows':>10}{'pages/call':>11}  statement")
        for one in statements:
            click.echo(
                f"{one.milliseconds:>10,.0f}{one.calls:>9,}{one.milliseconds / one.calls:>9.2f}{one.rows:>10,}"
                f"{one.pages / one.calls:>11,.0f}  {one.text[:LONGEST_STATEMENT]}"
            )
    click.echo(f"\nat the end: {run.standing}; {'; '.join(run.notes) or 'no notes'}")
