"""`onward retry-job`: requeue due documents, once or forever."""

from __future__ import annotations

import logging
import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from onward.cli.params import app_option, json_option
from onward.cli.render.output import print_json
from onward.model.documents import FINAL
from onward.ops.lookup import check_store
from onward.ops.text.format import counted, one_line
from onward.retry.errors import OnwardError
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.service import Registry

SOME_LEFT = 3


@click.command("retry-job")
@app_option
@click.option("--once", is_flag=True, help="Requeue what is due now, and end.")
@click.option("--verbose", is_flag=True, help="Log at the level DEBUG.")
@json_option
@click.pass_context
def retry_job(ctx: click.Context, reference: str, once: bool, verbose: bool, as_json: bool) -> None:
    """Requeue unfinished documents and failed batches that are due.

    Every `onward worker` and `onward ingest` does this, too. This command is for a machine that runs
    nothing else, or for cron. Several retry jobs can run at once.

    \b
    Exit codes: 0 done, 3 the store holds unfinished documents of another app: give --app.

    \b
    Examples:
      onward retry-job
      onward retry-job --once
      onward retry-job --once --json
      onward retry-job --app shop.orders:app
    """
    from onward.app import load_app, worker_name
    from onward.observe.logs import log_options, set_up_logs
    from onward.observe.process_observer import ProcessObserver
    from onward.recovery.periodic_jobs import PeriodicJobs
    from onward.recovery.retry_decision import RetryJobRules
    from onward.recovery.retry_job import RetryJob, describe_run
    from onward.recovery.retry_job_thread import RetryJobThread

    if as_json and not once:
        raise click.UsageError("--json prints the result of a single run: give --once, too")
    level = logging.DEBUG if verbose else logging.INFO
    set_up_logs(level, **log_options(load_settings(), reference))
    app = load_app(reference)
    if app._settings is not None:
        set_up_logs(level, **log_options(app.settings, reference))
    check_store(app.store_address)
    # Also for the app itself, so that its error reports are counted in this store.
    store = app._store = app.open_unannounced()
    try:
        at_home = any(service.service in app.registry.services for service in store.subscriptions())
        chosen = ctx.get_parameter_source("reference") is not ParameterSource.DEFAULT
        # Apps that share a store have a retry job each; with --app the others need no warning.
        left = [] if chosen and at_home else _documents_of_other_apps(store, app.registry)
        for line in left:
            click.echo(one_line(f"{line}; give --app MODULE:APP"), err=True)
        if left and not at_home:
            raise SystemExit(SOME_LEFT)
        job = RetryJob(store, app.registry, RetryJobRules.of(app.settings), holder=worker_name())
        observer = ProcessObserver(app, store=store, exposes=not once)

        def report(error: Exception) -> None:
            app.report_error(error, service="retry job")

        periodic = PeriodicJobs(lambda: store, app.registry, holder=worker_name(), on_error=report)
        if not once:

            def went(problem: str) -> None:
                observer.health.beat()
                observer.health.note("job", problem)

            loop = RetryJobThread(job, after_step=went, on_error=report)
            signal.signal(signal.SIGTERM, lambda *_: loop.halt())
            signal.signal(signal.SIGINT, lambda *_: loop.halt())
            with observer, periodic:
                loop.run()
            return
        try:
            with observer:
                run = job.run(full=True)
                periodic.run_due()
        except OnwardError:
            raise
        except Exception as error:
            report(error)
            raise
        if as_json:
            print_json(asdict(run) | {"left": left})
        else:
            for line in list(describe_run(run)) or ["nothing is due"]:
                click.echo(one_line(line))
    finally:
        app.close()
    raise SystemExit(SOME_LEFT if left else 0)


def _documents_of_other_apps(store: Store, registry: Registry) -> list[str]:
    """Return a line for each collection with unfinished documents that this app cannot requeue."""
    own = {service.finishes.collection for service in registry.services.values() if service.finishes is not None}
    finishers: dict[str, list[str]] = {}
    for service in store.subscriptions():
        if service.finishes is not None and service.finishes not in own:
            finishers.setdefault(service.finishes, []).append(service.service)
    lines = []
    for collection, counts in sorted(store.document_counts().items()):
        unfinished = sum(count for status, count in counts.items() if status not in FINAL)
        if unfinished and collection in finishers:
            verb = "is" if unfinished == 1 else "are"
            names = " and ".join(repr(name) for name in sorted(finishers[collection]))
            what = f"{counted(unfinished, 'document')} of {collection} {verb} finished by {names}"
            lines.append(f"{what}, which this app does not have")
    return lines
