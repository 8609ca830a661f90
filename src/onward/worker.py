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
from functools import partial
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from onward.app import App, load_app, worker_name
from onward.backend_urls import check_store_file
from onward.early_processes import EarlyProcesses, without_interrupts
from onward.ledger.store_errors import StoreError, StoreFull
from onward.observe.logs import log_options, set_up_logs
from onward.retry import OnwardError, redact_error
from onward.retry.redact import hide_addresses
from onward.runtime.dependency import HealthCalls
from onward.runtime.engine import LEASE_SECONDS, Engine
from onward.runtime.handler_call import Context
from onward.runtime.metrics import Counted
from onward.runtime.registry import Registry
from onward.runtime.slots import RunningSlots
from onward.runtime.supervisor import EXIT_CODES, POLL_SECONDS, ExitCode, Supervisor
from onward.settings import Settings, load_settings

log = logging.getLogger("onward")

_M_ARENA_MAX = -8  # a parameter of glibc's mallopt; other C libraries do not have it

TIDY_SECONDS = 15.0
"""A worker returns free memory to the system at this interval; otherwise it would keep its highest use."""

IDLE_POLL_SECONDS = 0.1  # how often the supervisor looks whether a run that ends by itself is over

REPORT_SECONDS = 1.0  # a worker process reports its counters to the supervisor at this interval

SWITCH_SECONDS = 0.001
"""The longest time that a busy thread holds the interpreter; Python's default of 5 ms slows every commit."""


def supervise(
    reference: str,
    *,
    services: Sequence[str] | None = None,
    processes: int = 1,
    concurrency: int | None = None,
    idle_within: float | None = None,
    lease: float = LEASE_SECONDS,
    log_level: int | None = None,
    log_file: Path | None = None,
    on_poll: Callable[[App], None] | None = None,
    on_signal: Callable[[], None] | None = None,
    signals: bool = True,
    exposes: bool = False,
    app: App | None = None,
    early: EarlyProcesses | None = None,
) -> str:
    """Run the services of the app that a reference names (`package.module:app`) until stopped.

    Return what was wrong with the gateway at the end, or "".
    With `exposes`, metrics and health are served at the address in the settings.
    With `log_file` the worker processes write there whatever they would print. `app` is the app that
    the reference names, where the caller has made one with settings of its own, which all processes get.
    `early` has processes that were started for this reference; they are the first workers.
    """
    # Of no use to a worker process, which imports this module, too.
    from onward.observe.process_observer import ProcessObserver
    from onward.recovery.background_jobs import PeriodicJobs, RetryJobThread
    from onward.recovery.retry_decision import RetryJobRules
    from onward.recovery.retry_job import RetryJob

    is_given, app = app is not None, app or load_app(reference)
    # Its own settings win; else every process gets the ones that were read here, even if the file is
    # broken by the time one has to be replaced.
    shares_settings = is_given or app._settings is None
    chosen = app.registry.select(services)
    options: dict[str, Any] = {"services": [service.name for service in chosen], "lease": lease}
    options |= {} if concurrency is None else {"concurrency": concurrency}
    app.report_failures()
    # The supervisor runs no handlers, but decides about those that hung. It knows no dependencies: a health call
    # that hangs must not keep it from renewing leases.
    ladder, limit = app.settings.ladder(), app.settings.time_limit_seconds
    health = HealthCalls(Registry(app.registry.services), app.store.now)
    context = Context(worker_name(), app.version, app.store, app.store.now, ladder, limit, health)

    def reload() -> None:
        settings = load_settings()
        if shares_settings:
            app._settings = settings
            hide_addresses(settings.redact_addresses)
            context.ladder, context.time_limit = settings.ladder(), settings.time_limit_seconds
            job.rules = RetryJobRules.of(settings, app.registry.subscriptions())

    def spawn(worker: str, record: RunningSlots, alone: bool) -> tuple[BaseProcess, Connection]:
        settings = app.settings if shares_settings else None
        logs = None if log_level is None else {"level": log_level, **log_options(app.settings, reference)}
        if logs is not None and log_file is not None:
            logs["format"] = "text"  # the display of whoever watches reads that file
        own = options | {"suspects": alone}
        first = (reference, settings, worker, own, logs, log_file)
        if not alone and early is not None and (begun := early.begin(record.handle, first)) is not None:
            log.debug("worker %s began", worker)
            return begun
        spawning = multiprocessing.get_context("spawn")
        ours, theirs = spawning.Pipe()
        given = (reference, settings, worker, record, theirs, own, logs, log_file)
        process = spawning.Process(target=child_main, args=given, name=f"onward-worker-{worker}")
        with without_interrupts(), theirs:
            process.start()
        log.debug("worker %s started%s", worker, " for a suspect event" if alone else "")
        return process, ours

    def poll() -> None:
        observer.health.beat()
        if on_poll is not None:
            on_poll(app)

    def next_chance() -> float | None:
        # While the inbox was not read, more events may be due at any moment.
        behind = gateway is not None and gateway.is_behind(idle_within or 0.0)
        return app.store.now() if behind else job.next_chance()

    gateway = app.gateway()
    rules = RetryJobRules.of(app.settings, app.registry.subscriptions())
    job = RetryJob(app.store, app.registry, rules, holder=worker_name())
    supervisor = Supervisor(
        app.store,
        chosen,
        context,
        spawn,
        name=worker_name,
        processes=processes,
        lease=lease,
        idle_within=idle_within,
        # Somebody waits for the end of such a run.
        poll=POLL_SECONDS if idle_within is None else IDLE_POLL_SECONDS,
        reload=reload,
        on_poll=poll,
        also_due=next_chance,
        on_message=lambda worker, word: observer.metrics.add(word) if isinstance(word, Counted) else None,
    )
    checks = {"leases": lambda: supervisor.trouble}
    checks["workers"] = lambda: "" if supervisor.children else "no worker process is alive"
    observer = ProcessObserver(app, exposes=exposes, checks=checks)
    if signals:
        supervisor.install_signals(on_signal)
    failed = partial(app.report_error, service="retry job")
    retrying = RetryJobThread(job, on_error=failed, after_step=partial(observer.health.note, "job"))
    failed = partial(app.report_error, service="periodic jobs")
    periodic = PeriodicJobs(lambda: app.store, app.registry, holder=worker_name(), on_error=failed)
    # The gateway first: if the broker cannot be used, nothing else is started.
    parts: list[Any] = [part for part in (gateway, retrying, periodic, observer) if part is not None]
    for part in parts:
        part.start()
    try:
        supervisor.run()
        return gateway.trouble if gateway is not None else ""
    except OnwardError:
        raise  # it says itself what is to be done
    except Exception as error:
        app.report_error(error, service="supervisor")
        raise
    finally:
        for part in parts:
            part.stop()
        app.stop_reporting()


def begin_early(
    handle: int,
    pipe: Connection,
    reference: str,
    settings: Settings | None,
    worker: str,
    options: dict[str, Any],
    logs: dict[str, Any] | None,
    log_file: Path | None,
) -> None:
    """Run a worker in a process that was started early; `handle` is the memory of its `RunningSlots`."""
    child_main(reference, settings, worker, RunningSlots(handle), pipe, options, logs, log_file)


def child_main(
    reference: str,
    settings: Settings | None,
    worker: str,
    record: RunningSlots,
    pipe: Connection,
    options: dict[str, Any],
    logs: dict[str, Any] | None,
    log_file: Path | None = None,
) -> None:
    """Run a worker process until it ends; `logs` has its log settings, if it logs."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor acts on it
    signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])
    if log_file is not None:  # all output goes there, also that of libraries which know no logging
        descriptor = os.open(log_file, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
        for standard in (sys.stdout, sys.stderr):
            standard.flush()
            os.dup2(descriptor, standard.fileno())
        os.close(descriptor)
    if logs is not None:
        set_up_logs(worker=worker, **logs)
    app: App | None = None
    try:
        app = load_app(reference)
        app._settings = app._settings or settings
        check_store_file(app.store_address)  # the supervisor has opened it
        engine = app.engine(options.pop("services"), worker=worker, record=record, renews=False, **options)
        tune_process()
        signal.signal(signal.SIGTERM, lambda *_: engine.drain())
        threading.Thread(target=_follow_orders, args=(pipe, engine), daemon=True).start()
        threading.Thread(target=_tidy, daemon=True).start()
        with _reporting(pipe, app):
            code = EXIT_CODES[engine.run()]
    except MemoryError:
        raise  # a handler has taken it all: this is a death like that of a kill for memory
    except StoreError as error:
        log.error("%s", error)
        code = ExitCode.STORE_FULL if isinstance(error, StoreFull) else ExitCode.FAILED
    except Exception as error:
        log.error("worker %s failed\n%s", worker, redact_error(traceback.format_exc()))
        if app is not None:
            app.report_error(error, service="worker")
        code = ExitCode.FAILED
    record.set_exit_code(code)
    if app is not None:
        app.stop_reporting()
    sys.stdout.flush()
    sys.stderr.flush()
    if code is ExitCode.STUCK:
        os._exit(code)  # a handler that hangs in a thread must not keep the process from ending
    sys.exit(code)


def tune_process() -> None:
    """Make this process a good worker: threads take turns quickly, garbage is looked for rarely."""
    sys.setswitchinterval(SWITCH_SECONDS)
    # Imported modules are never freed; a group of works makes thousands of short-lived objects, none in cycles.
    gc.freeze()
    gc.set_threshold(50_000, 20, 10)
    with suppress(OSError, AttributeError):
        # Otherwise each thread has a heap of its own that does not shrink.
        ctypes.CDLL(None).mallopt(_M_ARENA_MAX, 2)


def _tidy() -> None:
    """Collect garbage at intervals, and return free memory to the system."""
    while True:
        time.sleep(TIDY_SECONDS)
        gc.collect()
        with suppress(OSError, AttributeError):  # not with every C library
            ctypes.CDLL(None).malloc_trim(0)


@contextmanager
def _reporting(pipe: Connection, app: App) -> Iterator[None]:
    """Report the counters to the supervisor at intervals, and at the end."""
    ended = threading.Event()

    def report() -> None:
        with suppress(OSError, ValueError):  # the supervisor has exited
            over = False
            while not over:
                over = ended.wait(REPORT_SECONDS)
                pipe.send(app.metrics.take())

    reporter = threading.Thread(target=report, name="onward-reporting", daemon=True)
    reporter.start()
    try:
        yield
    finally:
        ended.set()
        reporter.join(REPORT_SECONDS)


def _follow_orders(pipe: Connection, engine: Engine) -> None:
    try:
        while message := pipe.recv():
            engine.release() if message == "release" else engine.drain()
    except (EOFError, OSError):
        # The supervisor is dead: renew the leases here, finish, and give the rest back.
        engine.settings.renews = True
        engine.drain()
