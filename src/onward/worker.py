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
from typing import TYPE_CHECKING, Any

from onward.app import App, load_app, worker_name
from onward.model.ledger import Settlement
from onward.observe.logs import chosen_logs, set_up_logs
from onward.ports import StoreError, StoreFull
from onward.retry import OnwardError, redact_error
from onward.retry.redact import hide_addresses
from onward.runtime.board import Board
from onward.runtime.engine import Engine
from onward.runtime.handling import Call, Context
from onward.runtime.metrics import Counted
from onward.runtime.orders import LEASE, Ending
from onward.runtime.service import Registry
from onward.runtime.supervisor import ExitCode, Supervisor
from onward.runtime.work import Checkpointed
from onward.settings import Settings, load_settings

if TYPE_CHECKING:
    from onward.observe.observatory import Observatory

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

TELL_SECONDS = 1.0
"""How often a worker process tells what it has counted."""

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
    exposes: bool = False,
    app: App | None = None,
) -> None:
    """Run the services of the app that a reference names (`package.module:app`) until stopped.

    With `exposes`, metrics and health can be had at the address that is set.
    With `log_file` the worker processes write there whatever they would print. `app` is the app that
    the reference names, where the caller has made one with settings of its own, which all processes get.
    """
    # Of no use to a worker process, which imports this module, too.
    from onward.observe.observatory import Observatory
    from onward.recovery.deciding import Rules
    from onward.recovery.loop import RetryLoop
    from onward.recovery.retry_job import RetryJob

    given, app = app, app or load_app(reference)
    # Its own settings win; else every process gets the ones that were read here, even if the file is
    # broken by the time one has to be replaced.
    shares_settings = given is not None or app._settings is None
    chosen = app.registry.select(services)
    options: dict[str, Any] = {"services": [service.name for service in chosen], "lease": lease}
    if concurrency is not None:
        options["concurrency"] = concurrency
    app.check_bus()
    app.report_failures()
    context = _context(app)

    def reload() -> None:
        settings = load_settings()
        if shares_settings:
            app._settings = settings
            hide_addresses(settings.redact_addresses)
            context.ladder, context.time_limit = settings.ladder(), settings.time_limit_seconds
            job.rules = Rules.of(settings)

    def logs() -> dict[str, Any] | None:
        if log_level is None:
            return None
        # The display of whoever watches reads that file.
        text = {"format": "text"} if log_file is not None else {}
        return {"level": log_level, **chosen_logs(app.settings, reference), **text}

    def spawn(worker: str, board: Board, alone: bool) -> tuple[BaseProcess, Connection]:
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        settings = app.settings if shares_settings else None
        process = spawning.Process(
            target=child_main,
            args=(reference, settings, worker, board, theirs, options | {"suspects": alone}, logs(), log_file),
            name=f"onward-worker-{worker}",
        )
        with _without_interrupts(), theirs:
            process.start()
        return process, ours

    def poll() -> None:
        observatory.health.beat()
        if on_poll is not None:
            on_poll(app)

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
        on_poll=poll,
        also_due=job.next_chance,
        hears=Hearing(lambda: observatory),
    )
    observatory = Observatory(
        app,
        exposes=exposes,
        checks={
            "leases": lambda: supervisor.trouble,
            "workers": lambda: "" if supervisor.children else "no worker process is alive",
        },
    )
    if signals:
        supervisor.install_signals(on_signal)
    retrying = RetryLoop(
        job,
        on_error=lambda error: app.report_error(error, service="retry job"),
        after_step=lambda problem: observatory.health.note("job", problem),
    )
    retrying.start()
    observatory.start()
    try:
        supervisor.run()
    except OnwardError:
        raise  # it says itself what is to be done
    except Exception as error:
        app.report_error(error, service="supervisor")
        raise
    finally:
        retrying.stop()
        observatory.stop()
        app.stop_reporting()


class Hearing:
    """Takes in what worker processes have counted, and what troubles them."""

    def __init__(self, observatory: Callable[[], Observatory]) -> None:
        self._observatory = observatory
        self._troubles: dict[str, str] = {}

    def __call__(self, worker: str, word: Any) -> None:
        observatory = self._observatory()
        match word:
            case "counted", Counted() as counted, str(trouble):
                observatory.metrics.add(counted)
                self._troubles[worker] = trouble
            case None:
                self._troubles.pop(worker, None)
        # Of those that are alive: one that is cut off is not made up for by another that is not.
        observatory.health.note("bus", next(filter(None, list(self._troubles.values())), ""))


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
    logs: dict[str, Any] | None,
    log_file: Path | None = None,
) -> None:
    """The life of a worker process; `logs` says how it logs, if it does."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor acts on it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if log_file is not None:
        _print_to(log_file)
    if logs is not None:
        set_up_logs(worker=worker, **logs)
    app: App | None = None
    try:
        app = load_app(reference)
        app._settings = app._settings or settings
        engine = app.engine(options.pop("services"), worker=worker, board=board, renews=False, **options)
        tune_process()
        signal.signal(signal.SIGTERM, lambda *_: engine.drain())
        threading.Thread(target=_obey, args=(pipe, engine), daemon=True).start()
        threading.Thread(target=_tidy, daemon=True).start()
        with _telling(pipe, app, engine):
            code = _EXIT_CODES[engine.run()]
    except MemoryError:
        raise  # a handler has taken it all: this is a death like that of a kill for memory
    except StoreFull as error:
        log.error("%s", error)
        code = ExitCode.STORE_FULL
    except StoreError as error:
        log.error("%s", error)
        code = ExitCode.FAILED
    except Exception as error:
        log.error("worker %s failed\n%s", worker, redact_error(traceback.format_exc()))
        if app is not None:
            app.report_error(error, service="worker")
        code = ExitCode.FAILED
    board.part(code)
    if app is not None:
        app.stop_reporting()
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


@contextmanager
def _telling(pipe: Connection, app: App, engine: Engine) -> Iterator[None]:
    """Tell the supervisor now and then what was counted; and at the end."""
    ended = threading.Event()

    def tell() -> None:
        with suppress(OSError, ValueError):  # nobody is there to hear it any more
            over = False
            while not over:
                over = ended.wait(TELL_SECONDS)
                pipe.send(("counted", app.metrics.take(), engine.trouble))

    teller = threading.Thread(target=tell, name="onward-telling", daemon=True)
    teller.start()
    try:
        yield
    finally:
        ended.set()
        teller.join(TELL_SECONDS)


def _obey(pipe: Connection, engine: Engine) -> None:
    try:
        while word := pipe.recv():
            engine.release() if word == "release" else engine.drain()
    except (EOFError, OSError):
        # The supervisor is dead: finish, and give the rest back.
        engine.renew_leases()
        engine.drain()
