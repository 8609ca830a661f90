"""Runs the jobs that an app declares with `app.periodic`: each in one process at a time."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable
from types import TracebackType
from typing import TYPE_CHECKING, Self

from onward.ledger.store_errors import StoreError
from onward.retry import redact_error
from onward.runtime.service import Registry

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

POLL_SECONDS = 60.0
STOP_SECONDS = 10.0
"""How long `stop` waits for a running job."""


class PeriodicJobs:
    """The periodic jobs of one process; the store keeps when each is due, for all processes."""

    def __init__(
        self,
        open_store: Callable[[], Store],
        registry: Registry,
        *,
        holder: str,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """`open_store` is called in the thread, so that a process starts even if the store cannot be reached."""
        self._open_store = open_store
        self._registry = registry
        self._holder = holder
        self._on_error = on_error
        self._runs = 0
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onward-periodic-jobs", daemon=True)

    def run_due(self) -> list[str]:
        """Run each job whose interval has passed since a process last began it; return their names."""
        jobs = self._registry.periodic.values()
        if not jobs or self._stopped.is_set():
            return []
        store = self._open_store()
        # Jobs of this app do not run on the store of another app.
        if not any(row.service in self._registry.services for row in store.subscriptions()):
            return []
        ran = []
        for job in jobs:
            self._runs += 1
            # A new holder each time: the role is held for the whole interval, also against this process.
            role, holder = f"periodic: {job.name}", f"{self._holder}:{self._runs}"
            if self._stopped.is_set() or not store.acquire_role(role, holder, job.every_seconds):
                continue
            job.run(self._stopped.is_set)
            ran.append(job.name)
            if self._stopped.is_set():
                store.release_role(role, holder)  # it was interrupted: the next process runs it again
        return ran

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        """Run due jobs in a thread, until `stop`."""
        if self._registry.periodic:
            self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for the running job up to `STOP_SECONDS`."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                self.run_due()
            except StoreError as error:
                log.warning("periodic jobs have not run: %s", error)
            except Exception as error:
                log.error("a periodic job has failed\n%s", redact_error(traceback.format_exc()))
                self._on_error(error)
            self._stopped.wait(POLL_SECONDS)
