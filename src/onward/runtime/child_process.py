"""A worker process as its supervisor sees it: how it ends, and when another one may be started."""

from __future__ import annotations

import contextlib
import logging
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from onward.retry import Exponential
from onward.runtime.engine import Ending
from onward.runtime.slots import RunningSlots

log = logging.getLogger("onward")

FIRST_RESTART_SECONDS = 0.1
SLOWEST_RESTART_SECONDS = 10.0


class ExitCode(IntEnum):
    """Why a worker process ended by itself."""

    DRAINED = 0
    FAILED = 70  # something failed that was no handler: the store is unreachable, the app cannot be imported
    STORE_FULL = 74
    STUCK = 75
    IDLE = 76  # it was to run a suspect event, and found none that it may run


EXIT_CODES = dict.fromkeys(Ending, ExitCode.DRAINED) | {Ending.STUCK: ExitCode.STUCK, Ending.IDLE: ExitCode.IDLE}


@dataclass(slots=True)
class Child:
    """A worker process, as its supervisor sees it."""

    process: BaseProcess
    pipe: Connection
    record: RunningSlots
    worker: str
    alone: bool = False  # it runs one suspect event and ends
    order: str = ""  # the last order that it was sent: `drain` or `release`
    ordered_at: float = 0.0
    hung: list[int] = field(default_factory=list)
    """Rows that are past their time limit, and that the process has not ended by itself."""
    hung_at: float = 0.0
    killed: bool = False  # by its supervisor: its death says nothing about what it was running
    reader: threading.Thread | None = None

    def send(self, order: str, now: float) -> None:
        if self.order in (order, "release"):
            return
        try:
            self.pipe.send(order)
        except OSError:
            log.debug("%s is gone already", self.worker)
        self.order, self.ordered_at = order, now

    def kill(self) -> None:
        self.killed = True
        self.process.kill()

    @property
    def cause(self) -> str:
        """The cause of the end of the process: a signal, or its exit code."""
        code = self.process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):  # a real-time signal has no name
                return signal.Signals(-code).name
        return f"exit code {code}"


@dataclass(slots=True)
class RestartBackoff:
    """The time from which a process that keeps failing may be started again: later each time, up to a limit."""

    failures: int = 0
    ready_at: float = 0.0

    @property
    def delay(self) -> float:
        backoff = Exponential(FIRST_RESTART_SECONDS, cap=SLOWEST_RESTART_SECONDS)
        return backoff.bounds(self.failures)[1] if self.failures else 0.0

    def count(self, failures: int, now: float) -> None:
        self.failures = failures
        self.ready_at = now + self.delay


Spawn = Callable[[str, RunningSlots, bool], tuple[BaseProcess, Connection]]
"""Starts a worker process: its name, the record of its slots, whether it runs a suspect alone."""
