"""`onward torture`: kills workers while they run, and counts what that did."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.params import json_option
from onward.cli.render.output import console, print_json
from onward.ops.text.format import counted, duration, number, one_line
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward.torture.torture_run import TortureReport

MAX_SEED = 10**9
_LABEL_WIDTH = 12
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
def torture(
    store: str | None,
    documents: int,
    kills: int,
    minutes: float | None,
    processes: int,
    workers: int,
    seed: int | None,
    as_json: bool,
    keep: bool,
) -> None:
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
    from onward.cli.torture_display import open_display
    from onward.torture.scratch import open_scratch
    from onward.torture.torture_run import TortureOptions
    from onward.torture.torture_run import torture as run

    # A wrong URL is reported like a wrong setting, without its password.
    load_settings({"ONWARD_STORE": store or ""}, path=os.devnull)
    seed = Random().randrange(1, MAX_SEED) if seed is None else seed
    options = TortureOptions(documents, kills, minutes, processes, workers, seed)
    with _stopped_once(), open_scratch(store, keep=keep) as scratch:
        display = open_display(f"torture on {scratch.where}")
        try:
            report = run(options, scratch, display.show)
        finally:
            display.end()
    if as_json:
        print_json(report.as_dict())
    else:
        print_report(report)
    raise SystemExit(0 if report.is_clean else 1)


@contextmanager
def _stopped_once() -> Iterator[None]:
    """Let SIGTERM stop the run as Ctrl-C does; further signals are ignored while everything is removed."""

    def stop(*_: object) -> None:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def print_report(report: TortureReport) -> None:
    """Print the faults, the counts, and how to repeat the run."""
    out, count = console(), report.count
    for label, text in _lines(report):
        out.print(Text.assemble((f"{label:{_LABEL_WIDTH}}", "dim"), one_line(text)), soft_wrap=True)
    out.print()
    lost, doubled, blamed = (number(len(ids)) for ids in (count.lost, count.doubled, count.blamed))
    result = f"lost {lost}, doubled {doubled}, wrongly charged {blamed}"
    out.print(Text(result, "bold green" if report.is_clean else "bold red"))
    for problem in _problems(report):
        out.print(Text(one_line(problem), "red"), soft_wrap=True)
    if not report.is_clean:
        keep = "" if report.kept else " --keep"
        out.print(f"Repeat it with the same faults: onward torture --seed {report.seed}{keep}", soft_wrap=True)
    for place in report.kept:
        out.print(f"Kept: {place}", soft_wrap=True)


def _lines(report: TortureReport) -> Iterator[tuple[str, str]]:
    count, faults = report.count, report.faults
    yield "store", report.where
    aside = f"; {number(count.set_aside)} of them with a fault, and the right result" if count.set_aside else ""
    yield "documents", f"{number(count.documents)} published, {number(count.finished)} finished{aside}"
    killed = f"{counted(faults.workers_killed, 'worker')}, {counted(faults.supervisors_killed, 'supervisor')}"
    groups = f"{counted(faults.groups_killed, 'supervisor')} with all workers"
    yield "killed", f"{killed}, {groups} ({counted(round(report.kills_a_minute), 'kill')} a minute)"
    refused = f"{counted(report.refused, 'late work')} refused"
    yield "paused", f"{number(faults.paused)} until others had done their work; {refused}"
    duplicates = f"{number(faults.duplicates)} reported as duplicates"
    yield "duplicates", f"{counted(faults.sent_again, 'event')} sent again, {duplicates}"
    poison = counted(count.poison, "document")
    yield "poison", f"{number(count.poison_caught)} of {poison} caught that kill their process"
    yield "time", f"{duration(report.seconds)}, seed {report.seed}"


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
