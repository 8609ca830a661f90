"""`onward retry-job`: put back what is due, once or for ever."""

from __future__ import annotations

import logging
import signal
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from onward.cli.opening import app_option
from onward.cli.output import json_option, print_json
from onward.facts.finding import check_store
from onward.facts.wording import counted, one_line
from onward.model.documents import FINAL
from onward.retry.errors import OnwardError
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward.ports import Store
    from onward.runtime.service import Registry

SOME_LEFT = 3


@click.command("retry-job")
@app_option
@click.option("--once", is_flag=True, help="Do what is due now, and end.")
@click.option("--verbose", is_flag=True, help="Say more.")
@json_option
@click.pass_context
def retry_job(ctx: click.Context, reference: str, once: bool, verbose: bool, as_json: bool) -> None:
    """Put back unfinished documents and failed batches whose time has come.

    Every `onward worker` and `onward ingest` does this beside its other work; this command is for a
    machine that runs nothing else, or for cron. Several at once do no harm.

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
    from onward.observe.logs import chosen_logs, set_up_logs
    from onward.observe.observatory import Observatory
    from onward.recovery.deciding import Rules
    from onward.recovery.loop import RetryLoop
    from onward.recovery.retry_job import RetryJob, described

    if as_json and not once:
        raise click.UsageError("--json prints what one run has done: give --once, too")
    level = logging.DEBUG if verbose else logging.INFO
    set_up_logs(level, **chosen_logs(load_settings(), reference))
    app = load_app(reference)
    if app._settings is not None:
        set_up_logs(level, **chosen_logs(app.settings, reference))
    check_store(app.store_address)
    # The app's own, so that what is reported is counted in there, too.
    store = app._store = app.open_unannounced()
    try:
        at_home = any(one.service in app.registry.services for one in store.subscriptions())
        chosen = ctx.get_parameter_source("reference") is not ParameterSource.DEFAULT
        # Apps that share a store have a retry job each: who names one of them knows of the others.
        left = [] if chosen and at_home else _of_others(store, app.registry)
        for line in left:
            click.echo(one_line(f"{line}; give --app MODULE:APP"), err=True)
        if left and not at_home:
            raise SystemExit(SOME_LEFT)
        job = RetryJob(store, app.registry, Rules.of(app.settings), holder=worker_name())
        observatory = Observatory(app, store=store, exposes=not once)

        def report(error: Exception) -> None:
            app.report_error(error, service="retry job")

        if not once:

            def went(problem: str) -> None:
                observatory.health.beat()
                observatory.health.note("job", problem)

            loop = RetryLoop(job, after_step=went, on_error=report)
            signal.signal(signal.SIGTERM, lambda *_: loop.halt())
            signal.signal(signal.SIGINT, lambda *_: loop.halt())
            with observatory:
                loop.run()
            return
        try:
            with observatory:
                run = job.run(full=True)
        except OnwardError:
            raise
        except Exception as error:
            report(error)
            raise
        if as_json:
            print_json(asdict(run) | {"left": left})
        else:
            for line in list(described(run)) or ["nothing is due"]:
                click.echo(one_line(line))
    finally:
        app.close()
    raise SystemExit(SOME_LEFT if left else 0)


def _of_others(store: Store, registry: Registry) -> list[str]:
    """What is unfinished in the store and cannot be put back here, by collection, in words."""
    own = {one.finishes.collection for one in registry.services.values() if one.finishes is not None}
    finishers: dict[str, list[str]] = {}
    for one in store.subscriptions():
        if one.finishes is not None and one.finishes not in own:
            finishers.setdefault(one.finishes, []).append(one.service)
    said = []
    for collection, counts in sorted(store.document_counts().items()):
        unfinished = sum(count for status, count in counts.items() if status not in FINAL)
        if unfinished and collection in finishers:
            verb = "is" if unfinished == 1 else "are"
            names = " and ".join(repr(name) for name in sorted(finishers[collection]))
            what = f"{counted(unfinished, 'document')} of {collection} {verb} finished by {names}"
            said.append(f"{what}, which this app does not have")
    return said
