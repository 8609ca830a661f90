"""Tidying: what a worker process does now and then for the store that it shares with others."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from concurrent.futures import Executor

from onward.ports import Store
from onward.runtime.flights import Flights
from onward.runtime.orders import EngineSettings
from onward.runtime.probes import Prober
from onward.runtime.wiring import Wiring

TICK = 1.0


class Tidying:
    """Belongs to the event loop; where the store is elsewhere, its work flies, and keeps nobody waiting."""

    def __init__(
        self,
        store: Store,
        worker: str,
        settings: EngineSettings,
        *,
        prober: Prober,
        wiring: Wiring | None,
        asker: Executor | None,
        landed: Callable[[], None],
    ) -> None:
        self._store = store
        self._worker = worker
        self._settings = settings
        self._prober = prober
        self._wiring = wiring
        self._asker = asker
        self._flights = Flights(landed)
        self._ticked = self._renewed = self._reaps_from = 0.0
        self._settled = 0

    def __bool__(self) -> bool:
        """Whether it is under way."""
        return bool(self._flights)

    def tick(self) -> None:
        """Begin, if it is time to; raises what has gone wrong the last time."""
        if (error := self._flights.failure()) is not None:
            raise error
        now = time.monotonic()
        if now - self._ticked < TICK or self._flights:
            return
        self._ticked = now
        if self._asker is None:
            self._tidy()
        else:
            self._flights.start(asyncio.get_running_loop().run_in_executor(self._asker, self._tidy))

    def settled(self, count: int) -> None:
        """So much more there is to prune."""
        self._settled += count

    def after_an_outage(self) -> None:
        """Others who were cut off must have the time to renew their leases before these are taken for lapsed."""
        self._reaps_from = time.monotonic() + self._settings.lease / 2

    async def land(self) -> None:
        await self._flights.land()

    def failure(self) -> BaseException | None:
        return self._flights.failure()

    def _tidy(self) -> None:
        settings = self._settings
        if settings.renews and self._ticked - self._renewed > settings.lease / 3:
            self._renewed = self._ticked
            self._store.renew(self._worker, settings.lease)
        if self._ticked > self._reaps_from:
            self._store.reap()
        self._prober.probe()
        if self._wiring is not None:
            self._wiring.look_at_breakers()
        if self._settled:
            self._settled = 0
            self._store.prune(
                keep_seconds=settings.keep_completed_seconds, keep_count=settings.keep_completed_count
            )
