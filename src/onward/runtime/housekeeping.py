"""Housekeeping: what a worker process does once in a tick for the store that it shares with others."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.ledger.dialect import Bus
from onward.ledger.store_errors import StoreError
from onward.model.breaker import is_health_probe_due
from onward.runtime.handler_call import Context
from onward.runtime.outcomes import BreakerMoved, Hooks

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.engine import EngineSettings

log = logging.getLogger("onward")


@dataclass(slots=True)
class Housekeeping:
    """Renews leases, puts back what dead workers held, probes breakers and prunes the ledger."""

    store: Store
    context: Context
    settings: EngineSettings
    bus: Bus
    hooks: Hooks
    monotonic: Callable[[], float]
    settled: int = 0  # settlements since the ledger was last pruned
    _renewed: float = 0.0
    _reclaims_from: float = 0.0

    def after_outage(self) -> None:
        """Give workers that were cut off from the store time to renew their leases before they are reclaimed."""
        self._reclaims_from = self.monotonic() + self.settings.lease / 2

    def run(self) -> bool:
        """Do what is due; return whether rows were put back or a dependency was probed."""
        settings, store, now = self.settings, self.store, self.monotonic()
        if settings.renews and now - self._renewed > settings.lease / 3:
            self._renewed = now
            store.renew(self.context.worker, settings.lease)
        changed = now > self._reclaims_from and bool(store.reclaim())
        # One process of the whole fleet probes a dependency at a time.
        due = [one.dependency for one in store.breakers() if is_health_probe_due(one, store.now())]
        for name in due:
            if self.context.health.has(name) and store.claim_probe(name):
                self._in_thread(self._probe, name)
                changed = True
        if self.settled:
            self.settled = 0
            store.prune(keep_seconds=settings.keep_completed_seconds, keep_count=settings.keep_completed_count)
        return changed

    def check_health_call(self, dependency: str) -> None:
        """Record it if the health call says no although a document has just succeeded with the dependency."""
        self._in_thread(self._check, dependency)

    def _in_thread(self, call: Callable[[str], None], dependency: str) -> None:
        """Call something in a thread, because a health call may hang; in a simulation in the caller's."""

        def run() -> None:
            try:
                call(dependency)
            except StoreError as error:  # without the store, nothing is claimed either
                log.warning("the breaker of %s stays as it is: %s", dependency, error)

        if self.settings.inline:
            run()
        else:
            threading.Thread(target=run, daemon=True).start()

    def _check(self, dependency: str) -> None:
        if problem := self.context.health.ask(dependency):
            log.warning("%s works, but its health call says: %s", dependency, problem)
            self.store.record_health_doubt(dependency)

    def _probe(self, dependency: str) -> None:
        """Close the breaker of a dependency if its health call says that it is well."""
        problem = self.context.health.ask(dependency)
        if problem != "":
            log.info("%s is still unavailable: %s", dependency, problem)
        elif self.store.close_breaker(dependency, probed=True):
            log.info("%s is back, its breaker closed", dependency)
            self.hooks(BreakerMoved(dependency, False))
            self.bus.wake()
