"""`onward worker`: run an app's services."""

from __future__ import annotations

import logging

import click

from onward.cli.opening import PIPELINE, PIPELINE_SERVICES, reading, store_file
from onward.settings import load_settings


@click.command()
@click.option(
    "--app",
    "reference",
    default=PIPELINE,
    metavar="MODULE:APP",
    help="The app, such as shop.orders:app; Onward's own pipeline by default.",
)
@click.option("--services", metavar="A,B", help="Only these services; all by default.")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Calls at once, a service and process.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option(
    "--until-idle", type=float, metavar="SECONDS", help="End when nothing falls due within so many seconds."
)
@click.option("--verbose", is_flag=True, help="Say more.")
def worker(
    reference: str,
    services: str | None,
    concurrency: int | None,
    processes: int,
    until_idle: float | None,
    verbose: bool,
) -> None:
    """Run an app's services in supervised worker processes.

    SIGTERM or Ctrl-C finishes what runs and ends; a second one gives it back at once. SIGHUP reads
    the settings again.

    \b
    Examples:
      onward worker
      onward worker --app shop.orders:app
      onward worker --app shop.orders:app --services billing,mailing --processes 2
      onward worker --app shop.orders:app --until-idle 60
    """
    from onward.worker import supervise

    if reference == PIPELINE:
        _refuse_other_store()
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s")
    supervise(
        reference,
        services=services.split(",") if services else None,
        processes=processes,
        concurrency=concurrency,
        idle_within=until_idle,
        log_level=level,
    )


def _refuse_other_store() -> None:
    """The pipeline has no business in the store of an app that was not named."""
    file = store_file(load_settings())
    if file is None or not file.exists():
        return
    with reading() as app:
        services = sorted(one.service for one in app.store.subscriptions())
    if services and not any(name.partition(".")[0] in PIPELINE_SERVICES for name in services):
        raise click.UsageError(
            f"{file} is the store of another app, with the services {', '.join(services)}: give --app MODULE:APP"
        )
