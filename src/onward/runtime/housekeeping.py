"""Housekeeping: what a worker process does once in a tick for the store that it shares with others."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from onward.runtime.breaker_probe import BreakerProbe
from onward.runtime.engine_settings import EngineSettings

if TYPE_CHECKING:
    from onward.ledger.store import Store


class Housekeeping:
    """Renews leases, puts back what dead workers held, probes breakers and prunes the ledger."""

    def __init__(
        self,
        store: Store,
        worker: str,
        settings: EngineSettings,
        probe: BreakerProbe,
        monotonic: Callable[[], float],
    ) -> None:
        self.probe = probe
        self.settled = 0  # settlements since the ledger was last pruned
        self._store = store
        self._worker = worker
        self._settings = settings
        self._monotonic = monotonic
        self._renewed = self._reclaims_from = 0.0

    def after_outage(self) -> None:
        """Give workers that were cut off from the store time to renew their leases before they are reclaimed."""
        self._reclaims_from = self._monotonic() + self._settings.lease / 2

    def run(self) -> bool:
        """Do what is due; return whether rows were put back or a dependency was probed."""
        settings, now = self._settings, self._monotonic()
        changed = False
        if settings.renews and now - self._renewed > settings.lease / 3:
            self._renewed = now
            self._store.renew(self._worker, settings.lease)
        if now > self._reclaims_from:
            changed = bool(self._store.reclaim())
        changed = self.probe.probe() or changed
        if self.settled:
            self.settled = 0
            self._store.prune(
                keep_seconds=settings.keep_completed_seconds, keep_count=settings.keep_completed_count
            )
        return changed
