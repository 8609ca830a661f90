"""`onward worker`: run an app's services."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING

import click

from onward.cli.app_access import open_store_app
from onward.cli.params import PIPELINE, app_option
from onward.ops.lookup import PIPELINE_SERVICES, store_exists
from onward.ops.text.format import counted, duration, one_line
from onward.retry.redact import redact
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import App
    from onward.settings import Settings


@click.command()
@app_option
@click.option("--services", metavar="A,B", help="Only these services; all by default.")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Concurrent calls for each service and process.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--until-idle", type=float, metavar="SECONDS", help="End when nothing is due within this time.")
@click.option("--verbose", is_flag=True, help="Log at the level DEBUG.")
def worker(
    reference: str,
    services: str | None,
    concurrency: int | None,
    processes: int,
    until_idle: float | None,
    verbose: bool,
) -> None:
    """Run an app's services in supervised worker processes.

    SIGTERM or Ctrl-C finishes running handlers and ends; a second signal ends at once. SIGHUP reads the
    settings again. Any number of workers can share a store; on PostgreSQL, from any number of machines.

    \b
    Examples:
      onward worker
      onward worker --app shop.orders:app
      onward worker --app shop.orders:app --services billing,mailing --processes 2
      onward worker --services embedding --concurrency 8
      onward worker --app shop.orders:app --until-idle 60
    """
    from onward.app import load_app
    from onward.observe.logs import log_options, set_up_logs
    from onward.worker import supervise

    if reference == PIPELINE:
        _refuse_other_store()
    level = logging.DEBUG if verbose else logging.INFO
    set_up_logs(level, **log_options(load_settings(), reference))
    app = load_app(reference)
    chosen = _chosen(app, services)
    # Settings that an app was given stay its own; `supervise` shares those that were read.
    has_settings = app._settings is not None
    if has_settings:
        set_up_logs(level, **log_options(app.settings, reference))
    names = chosen or list(app.registry.services)
    _announce(app, _beginning(app, app.settings, names, processes, concurrency))
    began = time.monotonic()
    supervise(
        reference,
        services=chosen,
        processes=processes,
        concurrency=concurrency,
        idle_within=until_idle,
        log_level=level,
        exposes=True,
        app=None if has_settings else app,
    )
    _announce(app, f"The worker has ended after {duration(round(time.monotonic() - began))}.")


def _announce(app: App, line: str) -> None:
    """Print a line to standard error, or log it where every line has to be JSON."""
    if app.settings.log_format == "json":
        logging.getLogger("onward").info("%s", line)
    else:
        click.echo(line, err=True)


def _chosen(app: App, services: str | None) -> list[str] | None:
    """Return the services of a list with commas, each once; None: all of them."""
    if services is None:
        return None
    names = list(dict.fromkeys(name.strip() for name in services.split(",") if name.strip()))
    known = app.registry.services
    there = f"there are: {', '.join(known) or 'none'}"
    if not names:
        raise click.BadParameter(f"it names none; {there}", param_hint="'--services'")
    if unknown := [name for name in names if name not in known]:
        listed = " and ".join(repr(one_line(name)) for name in unknown)
        raise click.BadParameter(f"there is no service {listed}; {there}", param_hint="'--services'")
    return names


def _beginning(app: App, settings: Settings, services: list[str], processes: int, concurrency: int | None) -> str:
    """Describe what runs, where the store and the broker are, and how to stop it."""
    many = "1 process" if processes == 1 else f"{processes} processes"
    calls = f"{counted(concurrency or settings.concurrency, 'call')} at once each"
    bus = f", events from {redact(settings.bus_url)}" if settings.bus_url else ""
    where = f"store {redact(app.store_address) or 'as the app has it'}{bus}"
    what = ", ".join(services) or "no services"
    return one_line(f"Running {what} in {many} with {calls}; {where}. Stop it with Ctrl-C or SIGTERM.")


def _refuse_other_store() -> None:
    """Refuse to run the pipeline in the store of another app."""
    store = load_settings().store
    if not store_exists(store):
        return
    with open_store_app() as app:
        services = sorted(subscription.service for subscription in app.store.subscriptions())
    if services and not any(name.partition(".")[0] in PIPELINE_SERVICES for name in services):
        raise click.UsageError(
            f"{redact(store)} is the store of another app, with the services {', '.join(services)}: "
            "give --app MODULE:APP"
        )
