"""`onward worker`, `onward serve` and `onward retry-job`: the commands that run until they are stopped."""

from __future__ import annotations

import logging
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from onward.cli.app_access import open_store_app
from onward.cli.params import PIPELINE, json_option, print_json
from onward.model.documents import FINAL
from onward.ops.lookup import PIPELINE_SERVICES, check_store, store_exists
from onward.ops.text.format import be, counted, duration, one_line
from onward.retry.errors import OnwardError
from onward.retry.redact import redact
from onward.settings import load_settings

if TYPE_CHECKING:
    from onward import App
    from onward.ledger.store import Store
    from onward.runtime.registry import Registry

SOME_LEFT = 3
STOP_SECONDS = 20.0  # how long a worker may take to finish running handlers
app_option = click.option(
    "--app",
    "reference",
    default=PIPELINE,
    metavar="MODULE:APP",
    help="The app, such as shop.orders:app; Onward's own pipeline by default.",
)
_verbose_option = click.option("--verbose", is_flag=True, help="Log at the level DEBUG.")


def _load_app(reference: str, level: int) -> App:
    """Load an app, with its logs set up before and, if it has settings of its own, once more by those."""
    from onward.app import load_app
    from onward.observe.logs import log_options, set_up_logs

    set_up_logs(level, **log_options(load_settings(), reference))
    app = load_app(reference)
    if app._settings is not None:
        set_up_logs(level, **log_options(app.settings, reference))
    return app


@click.command()
@app_option
@click.option("--services", metavar="A,B", help="Only these services; all by default.")
@click.option("--concurrency", type=click.IntRange(1, 1000), help="Concurrent calls for each service and process.")
@click.option("--processes", type=click.IntRange(1, 64), default=1, show_default=True, help="Worker processes.")
@click.option("--until-idle", type=float, metavar="SECONDS", help="End when nothing is due within this time.")
@_verbose_option
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
    from onward.worker import supervise

    if reference == PIPELINE:
        refuse_other_store()
    level = logging.DEBUG if verbose else logging.INFO
    app = _load_app(reference, level)
    # Settings that an app was given stay its own; `supervise` shares those that were read.
    has_settings = app._settings is not None
    chosen = _chosen(app, services)
    settings = app.settings
    what = ", ".join(chosen or app.registry.services) or "no services"
    many = "1 process" if processes == 1 else f"{processes} processes"
    calls = f"{counted(concurrency or settings.concurrency, 'call')} at once each"
    gateway = f", gateway to {redact(settings.gateway_url)}" if settings.gateway_url else ""
    where = f"store {redact(app.store_address) or 'as the app has it'}{gateway}"
    _announce(app, f"Running {what} in {many} with {calls}; {where}. Stop it with Ctrl-C or SIGTERM.")
    if unknown := unknown_outgoing(app):
        names = "a type" if len(unknown) == 1 else "types"
        text = f"ONWARD_GATEWAY_OUT has {names} that this app does not define, of which no event leaves"
        _announce(app, f"{text}: {', '.join(unknown)}. Check the spelling.")
    began = time.monotonic()
    trouble = supervise(
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
    if trouble and until_idle is not None:
        raise OnwardError(f"{trouble}. Perhaps events of other programs were not read, or events have not left")


def _announce(app: App, line: str) -> None:
    """Print a line to standard error, or log it where every line has to be JSON."""
    if app.settings.log_format == "json":
        logging.getLogger("onward").info("%s", one_line(line))
    else:
        click.echo(one_line(line), err=True)


def unknown_outgoing(app: App) -> list[str]:
    """Return the event types of `ONWARD_GATEWAY_OUT` that no loaded class and no service's notice has."""
    from onward.model.events import Event

    classes: list[type[Event]] = [Event]
    for kind in classes:
        classes += kind.__subclasses__()
    known = {kind.event_type for kind in classes[1:]}
    known.update(service.notice_type() for service in app.registry.services.values())
    return sorted((app.settings.outgoing_types or frozenset()) - known)


def _chosen(app: App, services: str | None) -> list[str] | None:
    """Return the services of a list with commas, each once; None: all of them."""
    if services is None:
        return None
    names = list(dict.fromkeys(name.strip() for name in services.split(",") if name.strip()))
    known = app.registry.services
    unknown = " and ".join(repr(one_line(name)) for name in names if name not in known)
    if unknown or not names:
        problem = f"there is no service {unknown}" if unknown else "it names none"
        there = f"there are: {', '.join(known) or 'none'}"
        raise click.BadParameter(f"{problem}; {there}", param_hint="'--services'")
    return names


def refuse_other_store() -> None:
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


# -- the retry job


@click.command("retry-job")
@app_option
@click.option("--once", is_flag=True, help="Requeue what is due now, and end.")
@_verbose_option
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
    from onward.app import worker_name
    from onward.observe.process_observer import ProcessObserver
    from onward.recovery.background_jobs import PeriodicJobs, RetryJobThread
    from onward.recovery.retry_decision import RetryJobRules
    from onward.recovery.retry_job import RetryJob, describe_run

    if as_json and not once:
        raise click.UsageError("--json prints the result of a single run: give --once, too")
    app = _load_app(reference, logging.DEBUG if verbose else logging.INFO)
    check_store(app.store_address)
    # Also for the app itself, so that its error reports are counted in this store.
    store = app._store = app.open_unannounced()
    with closing(app):
        at_home = any(service.service in app.registry.services for service in store.subscriptions())
        chosen = ctx.get_parameter_source("reference") is not ParameterSource.DEFAULT
        # Apps that share a store have a retry job each; with --app the others need no warning.
        left = [] if chosen and at_home else _documents_of_other_apps(store, app.registry)
        for line in left:
            click.echo(one_line(f"{line}; give --app MODULE:APP"), err=True)
        if left and not at_home:
            raise SystemExit(SOME_LEFT)
        rules = RetryJobRules.of(app.settings, app.registry.subscriptions())
        job = RetryJob(store, app.registry, rules, holder=worker_name())
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
                periodic.schedules.ticker.run_due()
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
            names = " and ".join(repr(name) for name in sorted(finishers[collection]))
            what = f"{counted(unfinished, 'document')} of {collection} {be(unfinished)} finished by {names}"
            lines.append(f"{what}, which this app does not have")
    return lines


# -- the console


@click.command()
@click.option(
    "--address", metavar="HOST:PORT", help="Where to listen; ONWARD_SERVE_ADDRESS by default (127.0.0.1:8321)."
)
@app_option
@click.option("--work", is_flag=True, help="Also run a worker of the same app, which ends with the console.")
def serve(address: str | None, reference: str, work: bool) -> None:
    """Serve the web console and the HTTP API.

    They show and submit documents. Workers process them: start `onward worker`, or give --work. Port 0
    takes a free port.

    On this machine no login is needed. On an address that other machines can reach, ONWARD_TOKEN must be set:
    people log in with it, programs send it as `Authorization: Bearer TOKEN`. For TLS, put a reverse proxy in
    front, and set ONWARD_SERVE_HOSTS to its host.

    \b
    Examples:
      onward serve --work
      onward serve --address 127.0.0.1:9000
      onward serve --app shop.orders:app
      ONWARD_TOKEN=… onward serve --address 0.0.0.0:8321
    """
    from onward.app import load_app, worker_name
    from onward.console import CannotServe
    from onward.console import serve as run
    from onward.console.server import split_address
    from onward.observe.logs import log_options, set_up_logs
    from onward.recovery.background_jobs import PeriodicJobs

    settings = load_settings()
    chosen = address or settings.serve_address
    try:
        split_address(chosen)  # before anything is opened or started
    except CannotServe as error:
        raise click.BadParameter(str(error), param_hint="'--address'") from None
    set_up_logs(logging.INFO, **log_options(settings, reference))
    ended: list[int] = []

    def announce(url: str) -> None:
        own = "" if reference == PIPELINE else f" --app {reference}"
        start = "" if work else f" Start a worker with: onward worker{own}."
        click.echo(f"The console is at {url} (API: {url}docs).{start} Stop it with Ctrl-C.", err=True)

    with closing(load_app(reference)) as app:
        periodic = PeriodicJobs(
            lambda: app.store,
            app.registry,
            holder=worker_name(),
            on_error=lambda error: app.report_error(error, service="periodic jobs"),
        )
        with _worker(reference if work else None, ended) as watch, periodic:
            run(app, chosen, ready=announce, also=watch)
    if ended:
        text = f"the worker has ended (exit code {ended[0]}), and the console with it; see above"
        raise click.ClickException(text)


@contextmanager
def _worker(reference: str | None, ended: list[int]) -> Iterator[Callable[[Callable[[], None]], None] | None]:
    """Yield a function that starts a worker; it gets a function that ends the console."""
    if reference is None:
        yield None
        return
    started: list[subprocess.Popen[bytes]] = []
    stopping = threading.Event()

    def begin(end: Callable[[], None]) -> None:
        # In a session of its own: a Ctrl-C would reach it twice, and end it at once.
        # Its standard input is closed when this process ends, even if that is killed.
        process = subprocess.Popen(
            [sys.executable, "-m", "onward.cli.attached_command", "worker", "--app", reference],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )
        started.append(process)

        def watch() -> None:
            code = process.wait()
            if not stopping.is_set():
                ended.append(code)
                end()

        threading.Thread(target=watch, name="onward-worker-watch", daemon=True).start()

    try:
        yield begin
    finally:
        stopping.set()
        for process in started:
            for ending in (process.terminate, process.terminate, process.kill):  # the second one ends it at once
                if process.poll() is None:
                    ending()
                    with suppress(subprocess.TimeoutExpired):
                        process.wait(STOP_SECONDS)
