"""Running an app's services in supervised worker processes."""

from __future__ import annotations

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.resource_tracker import ensure_running
from pathlib import Path
from random import Random
from typing import Any

from onward.app import App, load_app, worker_name
from onward.model.ledger import Settlement
from onward.ports import StoreError, StoreFull
from onward.recovery.deciding import Rules
from onward.recovery.loop import RetryLoop
from onward.recovery.retry_job import RetryJob
from onward.retry import redact
from onward.runtime.board import Board
from onward.runtime.engine import LEASE, Ending, Engine
from onward.runtime.handling import Call, Context
from onward.runtime.service import Registry
from onward.runtime.supervisor import ExitCode, Supervisor
from onward.runtime.work import Checkpointed
from onward.settings import Settings, load_settings

log = logging.getLogger("onward")

_EXIT_CODES = {
    Ending.DRAINED: ExitCode.DRAINED,
    Ending.RELEASED: ExitCode.DRAINED,
    Ending.STUCK: ExitCode.STUCK,
    Ending.IDLE: ExitCode.IDLE,
}

_M_ARENA_MAX = -8
"""Of glibc's mallopt; other C libraries do without."""

TIDY_SECONDS = 15.0
"""How often a worker gives memory back that it once needed; it would keep the most it ever held."""

SWITCH_INTERVAL = 0.001
"""How long a busy thread keeps the others waiting; the usual 5 ms would slow every commit down."""


def supervise(
    reference: str,
    *,
    services: Sequence[str] | None = None,
    processes: int = 1,
    concurrency: int | None = None,
    idle_within: float | None = None,
    lease: float = LEASE,
    log_level: int | None = None,
    log_file: Path | None = None,
    on_poll: Callable[[App], None] | None = None,
    on_signal: Callable[[], None] | None = None,
    signals: bool = True,
    app: App | None = None,
) -> None:
    """Run the services of the app that a reference names (`package.module:app`) until stopped.

    With `log_file` the worker processes write there whatever they would print. `app` is the app that
    the reference names, where the caller has made one with settings of its own, which all processes get.
    """
    given, app = app, app or load_app(reference)
    # Its own settings win; else every process gets the ones that were read here, even if the file is
    # broken by the time one has to be replaced.
    shares_settings = given is not None or app._settings is None
    chosen = app.registry.select(services)
    options: dict[str, Any] = {"services": [service.name for service in chosen], "lease": lease}
    if concurrency is not None:
        options["concurrency"] = concurrency
    app.check_bus()
    context = _context(app)

    def reload() -> None:
        settings = load_settings()
        if shares_settings:
            app._settings = settings
            context.ladder, context.time_limit = settings.ladder(), settings.time_limit_seconds
            job.rules = Rules.of(settings)

    def spawn(worker: str, board: Board, alone: bool) -> tuple[BaseProcess, Connection]:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        settings = app.settings if shares_settings else None
        process = spawning.Process(
            target=child_main,
            args=(reference, settings, worker, board, theirs, options | {"suspects": alone}, log_level, log_file),
            name=f"onward-worker-{worker}",
        )
        with _without_interrupts(), theirs:
            process.start()
        return process, ours

    job = RetryJob(app.store, app.registry, Rules.of(app.settings), holder=worker_name())
    supervisor = Supervisor(
        app.store,
        chosen,
        context,
        spawn,
        name=worker_name,
        processes=processes,
        lease=lease,
        idle_within=idle_within,
        reload=reload,
        on_poll=(lambda: on_poll(app)) if on_poll else None,
        also_due=job.next_chance,
    )
    if signals:
        supervisor.install_signals(on_signal)
    retrying = RetryLoop(job)
    retrying.start()
    try:
        supervisor.run()
    finally:
        retrying.stop()


def _context(app: App) -> Context:
    """The supervisor runs no handlers, but judges those that hung."""

    def checkpoint(call: Call, settlement: Settlement) -> Checkpointed:
        raise AssertionError("a supervisor runs no handlers")

    settings = app.engine_settings()
    return Context(
        worker=worker_name(),
        version=app.version,
        # Without dependencies: a health call that hangs must not keep it from renewing leases.
        registry=Registry(app.registry.services),
        reader=app.store,
        now=app.store.now,
        ladder=settings.ladder,
        time_limit=settings.time_limit,
        random=Random(),
        hooks=app.hooks,
        checkpoint=checkpoint,
        newer_alive=lambda service, version: False,
    )


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Ctrl-C reaches the whole process group; a process that is just starting must not die of it."""
    ensure_running()  # multiprocessing's tracker would unblock the signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def child_main(
    reference: str,
    settings: Settings | None,
    worker: str,
    board: Board,
    pipe: Connection,
    options: dict[str, Any],
    log_level: int | None,
    log_file: Path | None = None,
) -> None:
    """The life of a worker process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor acts on it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if log_file is not None:
        _print_to(log_file)
    if log_level is not None:
        logging.basicConfig(level=log_level, format="%(asctime)s %(levelname)-7s %(message)s")
    try:
        app = load_app(reference)
        app._settings = app._settings or settings
        engine = app.engine(options.pop("services"), worker=worker, board=board, renews=False, **options)
        tune_process()
        signal.signal(signal.SIGTERM, lambda *_: engine.drain())
        threading.Thread(target=_obey, args=(pipe, engine), daemon=True).start()
        threading.Thread(target=_tidy, daemon=True).start()
        code = _EXIT_CODES[engine.run()]
    except MemoryError:
        raise  # a handler has taken it all: this is a death like that of a kill for memory
    except StoreFull as error:
        log.error("%s", error)
        code = ExitCode.STORE_FULL
    except StoreError as error:
        log.error("%s", error)
        code = ExitCode.FAILED
    except Exception:
        log.error("worker %s failed\n%s", worker, redact(traceback.format_exc()))
        code = ExitCode.FAILED
    board.part(code)
    sys.stdout.flush()
    sys.stderr.flush()
    if code is ExitCode.STUCK:
        os._exit(code)  # a handler that hangs in a thread must not keep the process from ending
    sys.exit(code)


def _print_to(file: Path) -> None:
    """Send all output there, also that of libraries which know no logging."""
    descriptor = os.open(file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
    for standard in (sys.stdout, sys.stderr):
        standard.flush()
        os.dup2(descriptor, standard.fileno())
    os.close(descriptor)


def tune_process() -> None:
    """Make this process a good worker: threads take turns quickly, garbage is looked for rarely."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    # What was imported stays; a group of works makes thousands of short-lived objects, none in cycles.
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    with suppress(OSError, AttributeError):
        # Each of many threads would keep a heap of its own, and what it once held.
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _tidy() -> None:
    """Look for garbage at leisure, and hand what is free back to the machine."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError):
        trim = None
    while True:
        time.sleep(TIDY_SECONDS)
        gc.collect()
        if trim is not None:
            trim(0)


def _obey(pipe: Connection, engine: Engine) -> None:
    try:
        while word := pipe.recv():
            engine.release() if word == "release" else engine.drain()
    except (EOFError, OSError):
        # The supervisor is dead: finish, and give the rest back.
        engine.renew_leases()
        engine.drain()
