"""`onward capacity`: what a load needs, and how far a fleet of workers goes."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.app_access import open_store_app
from onward.cli.output import Output
from onward.cli.params import json_option, print_json

if TYPE_CHECKING:
    from onward.ops.capacity.figures import Figures
    from onward.ops.capacity.fleet import FleetForecast
    from onward.ops.capacity.plan import Plan
    from onward.ops.capacity.request import PlanRequest

_NAME = 28  # the width of names


@click.command()
@click.option(
    "--messages", metavar="RATE", help="Messages that come, such as 50k/day; by default as in the store."
)
@click.option("--size", metavar="SIZE", help="Bytes of a message, such as 7kB.")
@click.option("--tokens", metavar="N", help="Tokens of a message that are embedded.")
@click.option("--peak", default="3", show_default=True, metavar="N", help="The busiest hour, times the average.")
@click.option("--keep", default="1y", show_default=True, metavar="TIME", help="How long messages are kept.")
@click.option(
    "--call", "calls", multiple=True, metavar="SERVICE=TIME", help="A call to a remote model; repeatable."
)
@click.option("--limit", "limits", multiple=True, metavar="SERVICE=RATE", help="What it allows; repeatable.")
@click.option(
    "--figures",
    "file",
    type=click.Path(path_type=Path),
    help="Costs that you have measured; else those of Onward.",
)
@click.option("--simulate", is_flag=True, help="Simulate a fleet of workers instead.")
@click.option("--workers", default="1000", show_default=True, metavar="N", help="For --simulate: up to this many.")
@click.option("--events", default="100M", show_default=True, metavar="N", help="Events that wait for them.")
@click.option("--handler", default="10ms", show_default=True, metavar="TIME", help="How long a call takes.")
@click.option("--slots", default="3", show_default=True, metavar="N", help="Calls at once in a worker.")
@click.option("--server-cores", default="16", show_default=True, metavar="N", help="Processors of PostgreSQL.")
@click.option(
    "--log-rate", default="250MB", show_default=True, metavar="SIZE", help="What its disk takes a second."
)
@json_option
def capacity(
    messages: str | None,
    size: str | None,
    tokens: str | None,
    peak: str,
    keep: str,
    calls: tuple[str, ...],
    limits: tuple[str, ...],
    file: Path | None,
    simulate: bool,
    as_json: bool,
    **fleet: str,
) -> None:
    """Show what a load needs: workers, calls to models, a database and its disk.

    The costs are those that the benchmark has measured; the load is what you give, or what the store has seen in
    the last day. With --simulate, a fleet of workers works off events on the measured costs of the ledger, and the
    number of workers is named beyond which more do not help.

    SERVICE is embedding or summarization; without --call and --limit its model runs in the workers. A limit is of
    calls (3000/min) or of tokens ('1M tokens/min').

    \b
    Exit codes: 0 done, 2 a wrong or a missing value.

    \b
    Examples:
      onward capacity --messages 50k/day
      onward capacity --messages 1M/day --size 20kB --keep 90d
      onward capacity --messages 1M/day --call embedding=200ms --limit 'embedding=1M tokens/min'
      onward capacity --simulate --workers 1000 --events 100M --handler 10ms
    """
    from onward.ops.capacity import request as requests
    from onward.ops.capacity.figures import measured, read_figures

    figures = measured() if file is None else read_figures(file)
    if simulate:
        with Output(stderr=True).status("Simulating …"):
            found = requests.forecast_fleet(requests.FleetRequest(**fleet), figures)
        print_json(found.as_dict()) if as_json else _print_fleet(found, figures)
        return
    request = requests.PlanRequest(messages, size, tokens, peak, keep, calls, limits)
    plan = _plan(request, figures)
    print_json(plan.as_dict()) if as_json else _print_plan(plan, figures)


def _plan(request: PlanRequest, figures: Figures) -> Plan:
    from onward.ops.capacity.request import plan_capacity
    from onward.ops.lookup import store_exists
    from onward.settings import load_settings

    settings = load_settings()
    if not store_exists(settings.store):
        return plan_capacity(request, figures, settings, None)
    with open_store_app() as app:
        return plan_capacity(request, figures, settings, app.store)


def _print_plan(plan: Plan, figures: Figures) -> None:
    from onward.ops.text import capacity as text

    out = Output()

    def section(title: str, rows: text.Rows) -> None:
        out.write("")
        out.write((title, "bold"))
        for name, value in rows:
            out.write((f"  {name:{_NAME}}", "dim"), value)

    for line in text.about_plan(plan):
        out.wrapped(line)
    section("Workers", text.worker_rows(plan))
    for one in plan.calls:
        section(f"Calls of {one.service}", text.call_rows(one))
    for database in plan.databases:
        if database.name == plan.advised:
            section(database.name, text.database_rows(database))
    section("Archives", [("blobs", text.size(plan.blob_bytes))])
    out.write("")
    for line in text.advice(plan):
        out.wrapped(line)
    out.wrapped(f"{text.measured_where(figures)} {text.headroom()}", "dim")


def _print_fleet(found: FleetForecast, figures: Figures) -> None:
    from onward.ops.text import capacity as text

    out = Output()
    out.wrapped(text.about_fleet(found))
    rows = [(row[0], [Text(cell) for cell in row[1:]]) for row in map(text.fleet_row, found.runs)]
    out.table(text.FLEET_HEADS, rows)
    for line in text.knee(found):
        out.wrapped(line)
    out.wrapped(text.measured_where(figures), "dim")
