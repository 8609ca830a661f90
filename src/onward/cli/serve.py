"""`onward serve`: the web console and the HTTP API."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from onward.cli.params import app_option
from onward.settings import load_settings

STOP_SECONDS = 20.0
"""How long a worker may take to finish running handlers."""


class WorkerEnded(click.ClickException):
    """The worker that `--work` started has ended by itself."""


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
    from onward.recovery.periodic_jobs import PeriodicJobs

    settings = load_settings()
    chosen = address or settings.serve_address
    try:
        split_address(chosen)  # before anything is opened or started
    except CannotServe as error:
        raise click.BadParameter(str(error), param_hint="'--address'") from None
    set_up_logs(logging.INFO, **log_options(settings, reference))
    app = load_app(reference)
    ended: list[int] = []
    try:
        periodic = PeriodicJobs(
            lambda: app.store,
            app.registry,
            holder=worker_name(),
            on_error=lambda error: app.report_error(error, service="periodic jobs"),
        )
        with _worker(reference if work else None, ended) as watch, periodic:
            run(app, chosen, ready=lambda url: _announce(url, works=work), also=watch)
    finally:
        app.close()
    if ended:
        raise WorkerEnded(f"the worker has ended (exit code {ended[0]}), and the console with it; see above")


def _announce(url: str, *, works: bool) -> None:
    workers = "" if works else " Start a worker with: onward worker."
    click.echo(f"The console is at {url} (API: {url}docs).{workers} Stop it with Ctrl-C.", err=True)


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
            _stop(process)


def _stop(process: subprocess.Popen[bytes]) -> None:
    if process.poll() is not None:
        return
    for ending in (process.terminate, process.terminate, process.kill):  # the second one ends it at once
        ending()
        try:
            process.wait(STOP_SECONDS)
            return
        except subprocess.TimeoutExpired:
            continue
