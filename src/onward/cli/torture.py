"""`onward torture`: kills workers while they run, and counts what that did."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from random import Random
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from onward.cli.action_run import on_signals
from onward.cli.output import Output
from onward.cli.params import json_option, print_json
from onward.cli.pipeline_run import PLAIN_SECONDS
from onward.ops.text.format import counted, duration, number, one_line
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward.torture.torture_run import TortureProgress, TortureReport

MAX_SEED = 10**9
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_RANGE = click.IntRange(1, 64)


@click.command()
@click.option("--store", metavar="URL", help="Test this store; by default a temporary SQLite file.")
@click.option(
    "--documents", type=click.IntRange(10, 10_000_000), default=20_000, show_default=True, help="Parcels."
)
@click.option("--kills", type=click.IntRange(0, 10**6), default=300, show_default=True, help="Number of SIGKILLs.")
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Publish nothing more after this time.")
@click.option("--processes", type=_RANGE, default=2, show_default=True, help="Worker processes per supervisor.")
@click.option("--workers", type=_RANGE, default=2, show_default=True, help="Supervisors.")
@click.option("--seed", type=click.IntRange(0), help="Repeat the parcels and faults of an earlier run.")
@json_option
@click.option("--keep", is_flag=True, help="Keep the store and the log of the workers.")
def torture(store: str | None, seed: int | None, as_json: bool, keep: bool, **given: Any) -> None:
    """Kill workers at random moments, and count what is lost, doubled, or wrongly charged.

    A generated workload runs in a temporary place that is removed at the end: a new SQLite file, or a new schema
    of a PostgreSQL database. Existing data is not touched. Worker processes and supervisors are killed, groups of
    them are paused until others have done their work and then resumed, events are sent twice, and some documents
    kill the process that handles them.

    \b
    Exit codes: 0 nothing was lost, doubled or wrongly charged, 1 something was, 130 stopped.

    \b
    Examples:
      onward torture
      onward torture --documents 2000 --kills 50
      onward torture --store postgresql://me@db.example.org/test --minutes 10
    """
    from onward.torture.torture_run import TortureOptions, open_scratch
    from onward.torture.torture_run import torture as run

    # A wrong URL is reported like a wrong setting, without its password.
    load_settings({"ONWARD_STORE": store or ""}, path=os.devnull)
    seed = Random().randrange(1, MAX_SEED) if seed is None else seed
    out = Output(stderr=True)
    with on_signals(_stop, *_STOP_SIGNALS), open_scratch(store, keep=keep) as scratch:
        title = f"torture on {scratch.where}"
        display = TortureLiveDisplay(out, title) if out.is_terminal else TorturePlainDisplay(out)
        try:
            report = run(TortureOptions(seed=seed, **given), scratch, display.show)
        finally:
            display.end()
    print_json(report.as_dict()) if as_json else print_report(report)
    raise SystemExit(0 if report.is_clean else 1)


def _stop() -> None:
    """Stop the run as Ctrl-C does; further signals are ignored while everything is removed."""
    for stop_signal in _STOP_SIGNALS:
        signal.signal(stop_signal, signal.SIG_IGN)
    raise KeyboardInterrupt


class TortureLiveDisplay:
    """Bars that are redrawn in place, and removed at the end."""

    def __init__(self, out: Console, title: str) -> None:
        columns = TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn()
        self._bars = Progress(SpinnerColumn(), *columns, TimeElapsedColumn(), console=out, transient=True)
        self._bars.start()
        self._bars.add_task(one_line(title, 100), total=None)
        self._documents, self._kills = (self._bars.add_task(name) for name in ("documents", "kills"))
        self._facts = self._bars.add_task("", total=None)

    def show(self, progress: TortureProgress) -> None:
        self._bars.update(self._documents, completed=progress.finished, total=progress.documents)
        self._bars.update(self._kills, completed=progress.counts.kills, total=progress.kills_wanted)
        self._bars.update(self._facts, description=_facts(progress))

    def end(self) -> None:
        self._bars.stop()


class TorturePlainDisplay:
    """A line at intervals."""

    def __init__(self, out: Console) -> None:
        self._out = out
        self._next = PLAIN_SECONDS / 2

    def show(self, progress: TortureProgress) -> None:
        if progress.elapsed >= self._next:
            self._next = progress.elapsed + PLAIN_SECONDS
            finished = f"{number(progress.finished)} of {counted(progress.documents, 'document')} finished"
            line = f"{progress.elapsed:6.1f} s  {finished}, {_facts(progress)}"
            self._out.print(Text(line), soft_wrap=True)

    def end(self) -> None:
        pass


def _facts(progress: TortureProgress) -> str:
    counts, note = progress.counts, one_line(progress.note, 200)
    again = f"{counted(counts.sent_again, 'event')} sent again"
    facts = f"{counted(counts.kills, 'kill')}, {number(counts.zombies)} paused and resumed, {again}"
    return f"{facts}, {note}" if note else facts


def print_report(report: TortureReport) -> None:
    """Print the faults, the counts, and how to repeat the run."""
    out, count, faults = Output(), report.count, report.faults
    aside = f"; {number(count.set_aside)} of them with a fault, and the right result" if count.set_aside else ""
    killed = f"{counted(faults.workers_killed, 'worker')}, {counted(faults.supervisors_killed, 'supervisor')}"
    groups = f"{counted(faults.groups_killed, 'supervisor')} with all workers"
    refused = f"{counted(report.refused, 'late work')} refused"
    duplicates = f"{number(faults.duplicates_reported)} reported as duplicates"
    poison = counted(count.poison, "document")
    out.field("store", report.where)
    out.field("documents", f"{number(count.documents)} published, {number(count.finished)} finished{aside}")
    out.field("killed", f"{killed}, {groups} ({counted(round(report.kills_a_minute), 'kill')} a minute)")
    out.field("paused", f"{number(faults.zombies)} until others had done their work; {refused}")
    out.field("duplicates", f"{counted(faults.sent_again, 'event')} sent again, {duplicates}")
    out.field("poison", f"{number(count.poison_caught)} of {poison} caught that kill their process")
    out.field("time", f"{duration(report.seconds)}, seed {report.seed}")
    out.print()
    lost, doubled, blamed = (number(len(ids)) for ids in (count.lost, count.doubled, count.blamed))
    result = f"lost {lost}, doubled {doubled}, wrongly charged {blamed}"
    out.write(result, style="bold green" if report.is_clean else "bold red")
    for problem in _problems(report):
        out.write(one_line(problem), style="red")
    if not report.is_clean:
        keep = "" if report.kept else " --keep"
        out.write(f"Repeat it with the same faults: onward torture --seed {report.seed}{keep}")
    for place in report.kept:
        out.write(f"Kept: {place}")


def _problems(report: TortureReport) -> Iterator[str]:
    from onward.torture.torture_run import MAX_EXAMPLES

    for kind, ids in report.count.errors().items():
        if ids:
            more = f" and {number(len(ids) - MAX_EXAMPLES)} more" if len(ids) > MAX_EXAMPLES else ""
            yield f"{kind}: {', '.join(ids[:MAX_EXAMPLES])}{more}"
    if report.stalled:
        yield "nothing changed any more with some work left, so the run was ended"
    if report.count.rows_left:
        rows = ", ".join(f"{service} {number(count)}" for service, count in report.count.rows_left.items())
        yield f"events still on the ledger: {rows}"
    if not report.ended_well:
        yield "not every supervisor ended on a signal; see the log with --keep"
    if report.count.poison_caught < report.count.poison:
        yield "not every document that kills its process was given up as a crash loop"
