"""`onward retry-job`: put back what is due, once or for ever."""

from __future__ import annotations

import logging
import signal
from dataclasses import asdict

import click

from onward.cli.opening import PIPELINE
from onward.cli.output import json_option, one_line, print_json


@click.command("retry-job")
@click.option(
    "--app",
    "reference",
    default=PIPELINE,
    metavar="MODULE:APP",
    help="The app, such as shop.orders:app; Onward's own pipeline by default.",
)
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
@click.option("--verbose", is_flag=True, help="Say more.")
@json_option
def retry_job(reference: str, once: bool, verbose: bool, as_json: bool) -> None:
    """Put back unfinished documents and failed batches whose time has come.

    Every `onward worker` and `onward ingest` does this beside its other work; this command is for a
    machine that runs nothing else, or for cron. Several at once do no harm.

    \b
    Examples:
      onward retry-job
      onward retry-job --once
      onward retry-job --once --json
      onward retry-job --app shop.orders:app
    """
    from onward.app import load_app, worker_name
    from onward.recovery.deciding import Rules
    from onward.recovery.loop import RetryLoop
    from onward.recovery.retry_job import RetryJob, described

    if as_json and not once:
        raise click.UsageError("--json prints what one run has done: give --once, too")
    level = logging.DEBUG if verbose else logging.INFO
    logging.basicConfig(level=level, format="%(asctime)s %(levelname)-7s %(message)s")
    app = load_app(reference)
    try:
        job = RetryJob(app.store, app.registry, Rules.of(app.settings), holder=worker_name())
        if not once:
            loop = RetryLoop(job)
            signal.signal(signal.SIGTERM, lambda *_: loop.halt())
            signal.signal(signal.SIGINT, lambda *_: loop.halt())
            loop.run()
            return
        run = job.run(full=True)
        if as_json:
            print_json(asdict(run))
        else:
            for line in list(described(run)) or ["nothing is due"]:
                click.echo(one_line(line))
    finally:
        app.close()
