"""`onward torture`: kill what runs, again and again, and count what that did."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.output import console, json_option, print_json
from onward.facts.wording import counted, duration, number, one_line
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward.torture.report import Report

MOST_SEEDS = 10**9
_NAME = 12


@click.command()
@click.option("--store", metavar="URL", help="Try this store; a new SQLite file in a temporary folder by default.")
@click.option("--bus", metavar="URL", help="Try this bus with it, such as amqp://user@host:5672/.")
@click.option(
    "--private",
    type=click.Choice(["postgresql", "rabbitmq"]),
    is_flag=False,
    flag_value="postgresql",
    help="Start servers for this run alone: PostgreSQL, or PostgreSQL with RabbitMQ. Only these are killed.",
)
@click.option(
    "--documents",
    type=click.IntRange(10, 10_000_000),
    default=20_000,
    show_default=True,
    help="Parcels to send in.",
)
@click.option(
    "--kills",
    type=click.IntRange(0, 1_000_000),
    default=300,
    show_default=True,
    help="SIGKILLs of worker processes.",
)
@click.option(
    "--server-kills",
    type=click.IntRange(0, 10_000),
    default=20,
    show_default=True,
    help="SIGKILLs of private servers.",
)
@click.option("--minutes", type=click.FloatRange(0, min_open=True), help="Send nothing more in after this time.")
@click.option(
    "--processes", type=click.IntRange(1, 64), default=2, show_default=True, help="Worker processes a supervisor."
)
@click.option("--workers", type=click.IntRange(1, 64), default=2, show_default=True, help="Supervisors.")
@click.option("--seed", type=click.IntRange(0), help="Draw the same troubles and moments again.")
@json_option
@click.option("--keep", is_flag=True, help="Keep the store and the workers' log, to look at them.")
def torture(
    store: str | None,
    bus: str | None,
    private: str | None,
    documents: int,
    kills: int,
    server_kills: int,
    minutes: float | None,
    processes: int,
    workers: int,
    seed: int | None,
    as_json: bool,
    keep: bool,
) -> None:
    """Kill workers at random moments while they run, and count what is lost, doubled, or wrongly blamed.

    A made-up workload runs in a scratch place that is removed at the end: a new SQLite file, a new schema of
    a PostgreSQL database, queues of its own on RabbitMQ. What is there already is not touched. Worker processes
    and supervisors are killed, crews are stopped until others have done their work and then go on, events are
    sent twice, some documents kill whoever handles them. Servers are killed only if they are --private.

    \b
    Exit codes: 0 nothing was lost, doubled or blamed, 1 something was, 130 stopped.

    \b
    Examples:
      onward torture
      onward torture --documents 2000 --kills 50
      onward torture --private
      onward torture --private rabbitmq --server-kills 5
      onward torture --store postgresql://me@db.example.org/test --minutes 10
    """
    from onward.cli.torture_display import open_display
    from onward.torture.run import Order
    from onward.torture.run import torture as run
    from onward.torture.scratch import open_scratch

    if private and (store or bus):
        raise click.UsageError("--private starts servers of its own: leave out --store and --bus")
    # What is wrong with a URL is said as it is of a setting, without its password.
    load_settings({"ONWARD_STORE": store or "", "ONWARD_BUS": bus or ""}, path=os.devnull)
    order = Order(
        documents=documents,
        kills=kills,
        server_kills=server_kills,
        minutes=minutes,
        processes=processes,
        workers=workers,
        seed=Random().randrange(1, MOST_SEEDS) if seed is None else seed,
    )
    with _stopped_once(), open_scratch(store, bus, private=private, keep=keep) as scratch:
        display = open_display(f"torture on {scratch.where}")
        try:
            report = run(order, scratch, display.show)
        finally:
            display.end()
    if as_json:
        print_json(report.as_dict())
    else:
        print_report(report)
    raise SystemExit(0 if report.is_clean else 1)


@contextmanager
def _stopped_once() -> Iterator[None]:
    """SIGTERM stops as Ctrl-C does; what comes while all is being cleared away is not obeyed."""

    def stop(*_: object) -> None:
        for one in before:
            signal.signal(one, signal.SIG_IGN)
        raise KeyboardInterrupt

    before = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    for one in before:
        signal.signal(one, stop)
    try:
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)


def print_report(report: Report) -> None:
    """Print what was done, what was counted, and how to see it again."""
    out = console()
    for name, text in _lines(report):
        out.print(Text.assemble((f"{name:{_NAME}}", "dim"), one_line(text)), soft_wrap=True)
    count = report.count
    out.print()
    verdict = (
        f"lost {number(len(count.lost))}, doubled {number(len(count.doubled))}, "
        f"innocent neighbours blamed {number(len(count.blamed))}"
    )
    out.print(Text(verdict, "bold green" if report.is_clean else "bold red"))
    for name, ids in report.troubles():
        if ids:
            more = f" and {number(len(ids) - len(shown))} more" if len(ids) > len(shown := ids[:5]) else ""
            out.print(Text(one_line(f"{name}: {', '.join(shown)}{more}"), "red"), soft_wrap=True)
    for problem in _problems(report):
        out.print(Text(problem, "red"), soft_wrap=True)
    if not report.is_clean:
        again = "" if report.kept else " --keep"
        out.print(f"Again, with the same troubles: onward torture --seed {report.seed}{again}", soft_wrap=True)
    for place in report.kept:
        out.print(f"Kept: {place}", soft_wrap=True)


def _lines(report: Report) -> Iterator[tuple[str, str]]:
    count, done = report.count, report.done
    yield "store", report.where
    aside = f"; {number(count.set_aside)} of them are trouble and ended as they should" if count.set_aside else ""
    yield "documents", f"{number(count.documents)} in, {number(count.finished)} finished{aside}"
    killed = f"{counted(done.workers_killed, 'worker')}, {counted(done.supervisors_killed, 'supervisor')}"
    crews = f"{counted(done.crews_killed, 'supervisor')} with all workers"
    yield "killed", f"{killed}, {crews} ({counted(round(report.kills_a_minute), 'kill')} a minute)"
    if report.kills_servers:
        yield "servers", f"killed and started again {number(done.servers_killed)} times"
    else:
        yield "servers", "none was killed: only private ones are"
    refused = f"{counted(report.refused, 'late work')} refused"
    yield "zombies", f"{number(done.stopped)} stopped until others had done their work; {refused}"
    known = f"{number(done.reported)} known to the ledger"
    yield "duplicates", f"{counted(done.sent_again, 'event')} sent again, {known}"
    yield "poison", f"{number(count.caught)} of {counted(count.poison, 'document')} caught that kill their process"
    yield "time", f"{duration(report.seconds)}, seed {report.seed}"


def _problems(report: Report) -> Iterator[str]:
    if report.stalled:
        yield "it stood still with something left to do, and was ended"
    if report.count.rows:
        rows = ", ".join(f"{service} {number(count)}" for service, count in report.count.rows.items())
        yield f"events still on the ledger: {rows}"
    if not report.ended_well:
        yield "not every supervisor ended when it was told to; see the log with --keep"
    if report.count.caught < report.count.poison:
        yield "not every document that kills its process was given up as a crash loop"
