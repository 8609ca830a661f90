"""Probing open breakers by their dependency's health call."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

from onward.ledger.dialect import Bus
from onward.ledger.store_errors import StoreError
from onward.model.breaker import is_health_probe_due
from onward.runtime.health_calls import HealthCalls
from onward.runtime.observers import BreakerMoved, Hooks

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")


class BreakerProbe:
    """Asks the health calls of dependencies whose breaker is open, one at a time in the whole fleet.

    Each runs in a thread, because a health call may hang; in a simulation (`inline`) in the caller's.
    """

    def __init__(self, store: Store, health: HealthCalls, bus: Bus, hooks: Hooks, *, inline: bool = False) -> None:
        self._store = store
        self._health = health
        self._bus = bus
        self._hooks = hooks
        self._inline = inline

    def probe(self) -> bool:
        """Start the probes that are due; return whether there were any."""
        now = self._store.now()
        due = [breaker.dependency for breaker in self._store.breakers() if is_health_probe_due(breaker, now)]
        found = [name for name in due if self._health.has(name) and self._store.claim_probe(name)]
        for dependency in found:
            self._run(self.ask, dependency)
        return bool(found)

    def check_later(self, dependency: str) -> None:
        """Check the health call of a dependency that works."""
        self._run(self.check_health_call, dependency)

    def _run(self, call: Callable[[str], None], dependency: str) -> None:
        def run() -> None:
            try:
                call(dependency)
            except StoreError as error:  # without the store, nothing is claimed either
                log.warning("the breaker of %s stays as it is: %s", dependency, error)

        if self._inline:
            run()
        else:
            threading.Thread(target=run, daemon=True).start()

    def check_health_call(self, dependency: str) -> None:
        """Record it if the health call says no although a document has just succeeded with the dependency."""
        health = self._health.ask(dependency)
        if health is not None and health.problem is not None:
            log.warning("%s works, but its health call says: %s", dependency, health.problem)
            self._store.record_health_doubt(dependency)

    def ask(self, dependency: str) -> None:
        """Close the breaker of a dependency if its health call says that it is well."""
        health = self._health.ask(dependency)
        if health is None or health.problem is not None:
            log.info("%s is still unavailable: %s", dependency, health and health.problem)
            return
        if not self._store.close_breaker(dependency, probed=True):
            return
        log.info("%s is back, its breaker closed", dependency)
        self._hooks(BreakerMoved(dependency, False))
        self._bus.wake()
