"""Running an app's services in supervised worker processes."""

from __future__ import annotations

import gc
import logging
import multiprocessing
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from random import Random
from typing import Any

from onward.app import App, load_app, worker_name
from onward.model.ledger import Settlement
from onward.ports import StoreError
from onward.runtime.board import Board
from onward.runtime.engine import LEASE, Ending, Engine
from onward.runtime.handling import Call, Context
from onward.runtime.supervisor import ExitCode, Supervisor
from onward.runtime.work import Checkpointed
from onward.settings import load_settings

log = logging.getLogger("onward")

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
    on_poll: Callable[[App], None] | None = None,
    signals: bool = True,
) -> None:
    """Run the services of the app that a reference names (`package.module:app`) until stopped."""
    app = load_app(reference)
    chosen = app.registry.select(services)
    options: dict[str, Any] = {"services": [service.name for service in chosen], "lease": lease}
    if concurrency is not None:
        options["concurrency"] = concurrency

    def spawn(worker: str, board: Board, alone: bool) -> tuple[BaseProcess, Connection]:
        context = multiprocessing.get_context("spawn")
        ours, theirs = context.Pipe()
        process = context.Process(
            target=child_main,
            args=(reference, worker, board.path, theirs, options | {"suspects": alone}, log_level),
            name=f"onward-worker-{worker}",
        )
        process.start()
        theirs.close()
        return process, ours

    supervisor = Supervisor(
        app.store,
        chosen,
        _context(app),
        spawn,
        name=worker_name,
        processes=processes,
        lease=lease,
        idle_within=idle_within,
        reload=load_settings,
        on_poll=(lambda: on_poll(app)) if on_poll else None,
    )
    if signals:
        supervisor.install_signals()
    supervisor.run()


def _context(app: App) -> Context:
    """The supervisor runs no handlers, but judges those that hung."""

    def checkpoint(call: Call, settlement: Settlement) -> Checkpointed:
        raise AssertionError("a supervisor runs no handlers")

    settings = app.engine_settings()
    return Context(
        worker=worker_name(),
        version=app.version,
        registry=app.registry,
        reader=app.store,
        now=app.store.now,
        ladder=settings.ladder,
        time_limit=settings.time_limit,
        random=Random(),
        hooks=app.hooks,
        checkpoint=checkpoint,
        newer_alive=lambda service, version: False,
    )


def child_main(
    reference: str,
    worker: str,
    board: str,
    pipe: Connection,
    options: dict[str, Any],
    log_level: int | None,
) -> None:
    """The life of a worker process."""
    # Ctrl-C reaches the whole process group; only the supervisor is to act on it.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    tune_process()
    if log_level is not None:
        logging.basicConfig(level=log_level, format="%(asctime)s %(levelname)-7s %(message)s")
    try:
        app = load_app(reference)
        engine = app.engine(
            options.pop("services"), worker=worker, board=Board(board), renews=False, **options
        )
        signal.signal(signal.SIGTERM, lambda *_: engine.stop())
        threading.Thread(target=_obey, args=(pipe, engine), daemon=True).start()
        ending = engine.run()
    except StoreError as error:
        log.error("%s", error)
        sys.exit(ExitCode.STORE_FULL)
    # Handlers that hang in a thread must not keep the process from ending.
    sys.stdout.flush()
    sys.stderr.flush()
    if ending is Ending.STUCK:
        os._exit(ExitCode.STUCK)


def tune_process() -> None:
    """Make this process a good worker: threads take turns quickly, garbage is looked for rarely."""
    sys.setswitchinterval(SWITCH_INTERVAL)
    # What was imported stays; a group of works makes thousands of short-lived objects, none in cycles.
    gc.freeze()
    gc.set_threshold(50_000, 50, 100)


def _obey(pipe: Connection, engine: Engine) -> None:
    try:
        while pipe.recv():
            engine.stop()
    except (EOFError, OSError):
        engine.stop()  # the supervisor is dead: finish, and give the rest back
