"""`onward simulate`: what an outage would do with other settings."""

from __future__ import annotations

import os
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING

import click
from rich.text import Text

from onward.cli.app_access import open_pipeline
from onward.cli.output import Output
from onward.cli.params import PIPELINE, json_option, print_json

if TYPE_CHECKING:
    from onward.ops.simulation.scenario import Comparison

_LABEL, _WIDTH = 16, 60  # of the names of curves, and of the curves, in characters
_PRESETS = ("no-breaker", "longer-backoff", "slower-restart")


@click.command()
@click.option("--service", metavar="NAME", help="The service; by default the one that needs a dependency.")
@click.option("--outage", default="1h", show_default=True, metavar="TIME", help="How long its dependency is down.")
@click.option("--load", metavar="RATE", help="Events that arrive, such as 50/s or 300/min.")
@click.option("--duration", metavar="TIME", help="How long a call takes, such as 200ms.")
@click.option(
    "--failed-duration", metavar="TIME", help="How long it takes during the outage; the same by default."
)
@click.option("--workers", metavar="N", help="Worker processes.")
@click.option("--failing", metavar="SHARE", help="Documents that fail in any case, such as 2%.")
@click.option("--capacity", metavar="RATE", help="Calls that the dependency can take; more are reported.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Compare with this setting.")
@click.option(
    "--compare", multiple=True, metavar="'NAME=VALUE …'", help="Compare with these settings, too; repeatable."
)
@click.option("--what-if", multiple=True, type=click.Choice(_PRESETS), help="Compare with a preset; repeatable.")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of random waits.")
@click.option(
    "--app", "reference", default=PIPELINE, metavar="MODULE:APP", help="The app; the pipeline by default."
)
@json_option
def simulate(
    service: str | None,
    outage: str,
    capacity: str | None,
    changes: tuple[str, ...],
    compare: tuple[str, ...],
    what_if: tuple[str, ...],
    seed: int,
    reference: str,
    as_json: bool,
    **load: str | None,
) -> None:
    """Show what an outage would do, with the present settings and with others.

    The engine, the breakers and the retry job run on a simulated clock and a store in memory; the store is only
    read. The load is that of the last day, if the store knows it, with what you give in its place. A large load is
    scaled down.

    \b
    Names for --set and --compare: settings as in onward.toml or in the environment, with or without their unit
    (max_retries, breaker.probe_max=60s, RETRY_JOB_BASE_DELAY_SECONDS), and
      workers=N      worker processes
      rate=20/s      at most this many calls a second, in all
      breaker=off    a service that does not say what it needs

    \b
    Exit codes: 0 done, 2 a wrong or a missing value.

    \b
    Examples:
      onward simulate --service embedding --outage 3h
      onward simulate --outage 3h --load 20/s --duration 200ms --workers 4 --what-if no-breaker
      onward simulate --outage 6h --capacity 30/s --set rate=25/s
      onward simulate --set breaker.probe_max=60s --compare 'max_retries=5 retry_job.base_delay=10min'
    """
    from onward.app import App, load_app
    from onward.ops.lookup import store_exists
    from onward.ops.simulation.request import SimulationRequest, simulate_outage

    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for numpy, which starts a thread for each core
    request = SimulationRequest(service, outage, load, capacity, changes, compare, what_if, seed)
    with ExitStack() as stack:
        opened = open_pipeline() if reference == PIPELINE else closing(load_app(reference))
        app = stack.enter_context(opened)
        store = None
        if not app.store_address or store_exists(app.store_address):
            # By an app without services, which writes nothing.
            reader = stack.enter_context(closing(App(store=app.store_address or app.store, settings=app.settings)))
            store = reader.store
        comparison = simulate_outage(app, request, store)
    print_json(comparison.as_dict()) if as_json else _print(comparison)


def _print(comparison: Comparison) -> None:
    from onward.ops.text import simulation as text
    from onward.ops.text.format import number

    out = Output()
    for line in text.about(comparison):
        out.wrapped(line)
    titles = [one.title for one in comparison.outcomes]
    out.table(["", *titles], [(name, [Text(value) for value in values]) for name, values in text.rows(comparison)])
    lead, end = comparison.outcomes[0].calls[0][0], text.end_of(comparison)
    width = max(20, min(_WIDTH, out.width - _LABEL - 1))
    for heading, name in (("documents waiting", "waiting"), ("calls a second", "calls")):
        curves = [text.curve(getattr(one, name), lead, end, width) for one in comparison.outcomes]
        most = max(max(curve) for curve in curves) or 1.0
        out.write((f"{heading}, up to {most:.3g}" if most < 1000 else f"{heading}, up to {number(most)}", "dim"))
        for title, curve in zip(titles, curves, strict=True):
            out.write(f"{title[: _LABEL - 1]:{_LABEL}}", text.bars(curve, most).rstrip())
    column = (end - lead) / width
    down = round(comparison.outage / column)
    axis = " " * round(-lead / column) + "└" + "─" * max(0, down - 2) + "┘"
    out.write((f"{'outage':{_LABEL}}{axis} {text.span(end - comparison.outage)} after it at the right end", "dim"))
    shared, notes = text.notes(comparison)
    for one in comparison.outcomes:
        if changed := text.changes(one):
            out.write((f"{one.title}: ", "dim"), changed)
        for note in notes[one.title]:
            out.wrapped(f"{one.title}: {note}")
    for note in shared:
        out.wrapped(note)
