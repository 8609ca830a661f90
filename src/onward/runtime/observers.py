"""Signals about outcomes, for observers: metrics, tracing, a live display."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass

from onward.model.failures import Failure

log = logging.getLogger("onward")


@dataclass(slots=True)
class Signal:
    """Something that happened to a delivery of a service."""

    service: str
    row: int
    ids: tuple[str, ...]


@dataclass(slots=True)
class Finished(Signal):
    """A work was committed."""

    seconds: float
    tries: int
    duplicates: int
    retried_for: float | None = None  # seconds since the event failed for the first time, if it did


@dataclass(slots=True)
class Retried(Signal):
    """A try failed and is to be repeated."""

    error_type: str
    after: float
    not_ready: bool
    failure: Failure | None = None


@dataclass(slots=True)
class GaveUp(Signal):
    """An event became a dead letter."""

    error_type: str
    reason: str
    tries: int
    failure: Failure | None = None


@dataclass(slots=True)
class SetAside(Signal):
    """Documents joined a failed batch."""

    error_type: str
    failure: Failure | None = None


@dataclass(slots=True)
class Dropped(Signal):
    """A work was not committed, because it was a zombie's or its input had changed."""

    verdict: str


@dataclass(slots=True)
class BreakerMoved:
    """A dependency's breaker opened or closed."""

    dependency: str
    open: bool


AnySignal = Signal | BreakerMoved
Hook = Callable[[AnySignal], None]


class Hooks:
    """Calls all observers; an observer that fails never fails the work."""

    def __init__(self) -> None:
        self._hooks: list[Hook] = []
        self._calling = threading.RLock()  # held while observers are called: several commits may end at once

    def __bool__(self) -> bool:
        return bool(self._hooks)

    def add(self, hook: Hook) -> None:
        self._hooks.append(hook)

    def __call__(self, signal: AnySignal) -> None:
        with self._calling:
            for hook in self._hooks:
                try:
                    hook(signal)
                except Exception as error:
                    broken = Failure.of(error, at=0.0, service="").traceback
                    log.error("an observer failed on %s\n%s", type(signal).__name__, broken)
