"""Probing open breakers by their dependency's health call."""

from __future__ import annotations

import logging
import threading

from onward.ports import Bus, Store
from onward.runtime.service import Dependency, Registry
from onward.runtime.signals import BreakerMoved, Hooks

log = logging.getLogger("onward")


class Prober:
    """Asks the health calls of dependencies in outage, one at a time in the whole fleet."""

    def __init__(
        self, store: Store, registry: Registry, bus: Bus | None = None, hooks: Hooks | None = None
    ) -> None:
        self._hooks = Hooks() if hooks is None else hooks
        self._store = store
        self._registry = registry
        self._bus = bus

    def probe(self) -> None:
        """Start the probes that are due, each in a thread: a health call may hang, too."""
        for dependency in self._due():
            threading.Thread(target=self.ask, args=(dependency,), daemon=True).start()

    def probe_inline(self) -> bool:
        """Ask the probes that are due, here and now; True: there were some."""
        due = self._due()
        for dependency in due:
            self.ask(dependency)
        return bool(due)

    def _due(self) -> list[Dependency]:
        asked = [self._registry.dependencies.get(one.dependency) for one in self._store.breakers() if one.open]
        known = [one for one in asked if one is not None and one.health is not None]
        return [one for one in known if self._store.take_probe(one.name)]

    def ask(self, dependency: Dependency) -> None:
        """Close the breaker if the dependency is well again."""
        ill = dependency.ill()
        if ill is not None:
            log.info("%s is still unavailable: %s", dependency.name, ill)
            return
        if not self._store.close_breaker(dependency.name, probed=True):
            return
        log.info("%s is back, its breaker closed", dependency.name)
        self._hooks(BreakerMoved(dependency.name, False))
        if self._bus is not None:
            self._bus.wake()
