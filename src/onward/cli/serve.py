"""`onward serve`: the web console and the HTTP API."""

from __future__ import annotations

import logging
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from onward.cli.opening import app_option
from onward.settings import load_settings

PATIENCE = 20.0
"""Seconds that a worker gets to finish what it runs."""


class WorkerEnded(click.ClickException):
    """The worker that was started along ended by itself, and the console with it."""


@click.command()
@click.option(
    "--address", metavar="HOST:PORT", help="Where to listen; ONWARD_SERVE_ADDRESS by default (127.0.0.1:8321)."
)
@app_option
@click.option("--work", is_flag=True, help="Also run a worker of the same app; it ends with the console.")
def serve(address: str | None, reference: str, work: bool) -> None:
    """Serve the web console and the HTTP API.

    They show and submit; the work itself is done by workers, which are started apart with `onward worker`, or
    along with --work. Port 0 takes one that is free.

    On this machine nobody has to log in. On an address that other machines can reach, ONWARD_TOKEN must be set:
    people log in with it, programs send it as `Authorization: Bearer TOKEN`. There is no TLS; put a proxy that
    has it before this, and name its host in ONWARD_SERVE_HOSTS.

    \b
    Examples:
      onward serve --work
      onward serve --address 127.0.0.1:9000
      onward serve --app shop.orders:app
      ONWARD_TOKEN=… onward serve --address 0.0.0.0:8321
    """
    try:
        from onward.console import CannotServe
        from onward.console import serve as run
        from onward.console.server import split_address
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"the console needs {error.name}, which is not installed: pip install 'onward[console]'"
        ) from None
    from onward.app import load_app
    from onward.observe.logs import chosen_logs, set_up_logs

    settings = load_settings()
    chosen = address or settings.serve_address
    try:
        split_address(chosen)  # before anything is opened or started
    except CannotServe as error:
        raise click.BadParameter(str(error), param_hint="'--address'") from None
    set_up_logs(logging.INFO, **chosen_logs(settings, reference))
    app = load_app(reference)
    ended: list[int] = []
    try:
        with _worker(reference if work else None, ended) as watch:
            run(app, chosen, ready=lambda url: _tell(url, works=work), also=watch)
    finally:
        app.close()
    if ended:
        raise WorkerEnded(f"the worker has ended (exit code {ended[0]}), and the console with it; see above")


def _tell(url: str, *, works: bool) -> None:
    workers = "" if works else " Workers are started apart: onward worker."
    click.echo(f"The console is at {url} (API: {url}docs).{workers} Stop it with Ctrl-C.", err=True)


@contextmanager
def _worker(reference: str | None, ended: list[int]) -> Iterator[Callable[[Callable[[], None]], None] | None]:
    """A worker that lives as long as the console; what is yielded begins it, given what ends the console."""
    if reference is None:
        yield None
        return
    started: list[subprocess.Popen[bytes]] = []
    stopping = threading.Event()

    def begin(end: Callable[[], None]) -> None:
        # In a session of its own: a Ctrl-C would reach it twice, as a wish not to finish anything.
        # It hears of our end by what it reads, even if we are killed.
        process = subprocess.Popen(
            [sys.executable, "-m", "onward.cli.along", "worker", "--app", reference],
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
    for ending in (process.terminate, process.terminate, process.kill):  # the second gives back what runs
        ending()
        try:
            process.wait(PATIENCE)
            return
        except subprocess.TimeoutExpired:
            continue
