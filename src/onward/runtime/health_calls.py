"""Health calls of dependencies: one at a time for each, its result shared for a second."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from onward.runtime.service import Registry

SHARED_SECONDS = 1.0  # how long a result is reused in the same process


@dataclass(frozen=True, slots=True)
class Health:
    """The result of a health call; a problem is the reason why the dependency cannot be used."""

    problem: str | None = None


@dataclass(slots=True)
class _Line:
    """The health call of one dependency: a second caller waits here for the first."""

    asking: threading.Lock = field(default_factory=threading.Lock)
    answer: Health | None = None
    asked_at: float = 0.0


class HealthCalls:
    """Asks health calls for a whole process; callable from any thread."""

    def __init__(self, registry: Registry, now: Callable[[], float]) -> None:
        self._registry = registry
        self._now = now
        self._lines: dict[str, _Line] = {}
        self._lock = threading.Lock()

    def has(self, name: str) -> bool:
        """Whether a dependency has a health call."""
        known = self._registry.dependencies.get(name)
        return known is not None and known.health is not None

    def ask(self, name: str) -> Health | None:
        """Return what the health call says; None: the dependency has none. It may take `HEALTH_SECONDS`."""
        dependency = self._registry.dependencies.get(name)
        if dependency is None or dependency.health is None:
            return None
        with self._lock:
            line = self._lines.setdefault(name, _Line())
        with line.asking:
            if line.answer is None or not 0 <= self._now() - line.asked_at < SHARED_SECONDS:
                line.answer = Health(dependency.problem())
                line.asked_at = self._now()
            return line.answer
