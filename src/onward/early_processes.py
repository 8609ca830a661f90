"""Worker processes that are started before their supervisor is ready.

On Linux they are copies of the command, made when it has imported what workers need, and before it starts a thread
or opens a file; so nothing is imported twice. Elsewhere they import it themselves. A process that is not needed
ends without having done anything.
"""

from __future__ import annotations

import importlib
import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing import get_context
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from multiprocessing.reduction import recv_handle, send_handle
from multiprocessing.resource_tracker import ensure_running
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from multiprocessing.context import ForkContext, SpawnContext


class EarlyProcesses:
    """Processes that import an app, and wait to be told which worker they are."""

    def __init__(self, reference: str, count: int) -> None:
        self._waiting: list[tuple[BaseProcess, Connection]] = []
        copied = count > 0 and sys.platform == "linux" and threading.active_count() == 1
        if copied:
            _import(reference)
        starting: ForkContext | SpawnContext = get_context("fork") if copied else get_context("spawn")
        for _ in range(count):
            ours, theirs = starting.Pipe()
            # A copy has our ends of all pipes: it closes them, so that a pipe ends when this process does.
            others = [ours, *(pipe for _, pipe in self._waiting)] if copied else []
            process = starting.Process(target=_wait, args=(reference, theirs, others), name="onward-worker")
            with without_interrupts(), theirs:
                process.start()
            self._waiting.append((process, ours))

    def begin(self, descriptor: int, arguments: tuple[Any, ...]) -> tuple[BaseProcess, Connection] | None:
        """Make one of them a worker: give it a file descriptor and arguments. None if no process is left."""
        while self._waiting:
            process, pipe = self._waiting.pop(0)
            try:
                pipe.send(arguments)
                send_handle(pipe, descriptor, process.pid)
            except OSError:  # it has died
                _end(process, pipe)
            else:
                return process, pipe
        return None

    def close(self) -> None:
        """End the processes that were not needed."""
        while self._waiting:
            _end(*self._waiting.pop())


def _end(process: BaseProcess, pipe: Connection) -> None:
    pipe.close()
    process.kill()
    process.join()


@contextmanager
def without_interrupts() -> Iterator[None]:
    """Ctrl-C reaches the whole process group; a process that is just starting must not die of it."""
    ensure_running()  # multiprocessing's tracker would unblock the signal
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGINT])


def _import(reference: str) -> None:
    """Import what a worker needs."""
    importlib.import_module("onward.worker")
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # for numpy: a process with threads cannot be copied safely
    for name in (reference.partition(":")[0], "numpy"):
        with suppress(ImportError):  # that of an app is reported when it is loaded
            importlib.import_module(name)


def _wait(reference: str, pipe: Connection, others: list[Connection]) -> None:
    """Become a worker when the arguments arrive."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the supervisor acts on it
    for other in others:
        other.close()
    _import(reference)
    try:
        arguments = pipe.recv()
        descriptor = recv_handle(pipe)
    except (EOFError, OSError):
        return  # it is not needed
    importlib.import_module("onward.worker").begin_early(descriptor, pipe, *arguments)
