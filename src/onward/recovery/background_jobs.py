"""Runs the retry job, and the periodic jobs and schedules of an app, in threads beside the other work."""

from __future__ import annotations

import logging
import math
import threading
import traceback
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from random import Random
from typing import TYPE_CHECKING, Self

from onward.ledger.store_errors import StoreError
from onward.recovery.retry_job import RetryJob, describe_run
from onward.retry import redact_error
from onward.runtime.registry import Registry
from onward.runtime.schedules import Ticker

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

RETRY_POLL_SECONDS = 2.0
PERIODIC_POLL_SECONDS = 60.0
FAILED_JOB_SECONDS = 60.0  # after this time, a periodic job that failed is run again
MAX_TICK_WAIT_SECONDS = 60.0  # a clock that was set is noticed after this time
MAX_TICK_JITTER_SECONDS = 0.2  # most processes of a fleet find that another one has published the tick
MAX_POLL_SECONDS = 60.0  # the poll interval doubles up to this while runs fail
STOP_SECONDS = 10.0  # how long `stop` waits for the current transaction, or the running periodic job


class _JobThread:
    """Runs `step` at intervals until it is stopped; no error ends it. `on_error` gets the unexpected ones."""

    def __init__(self, name: str, poll: float, on_error: Callable[[Exception], None]) -> None:
        self._poll = poll
        self._on_error = on_error
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self.run, name=f"onward-{name}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """Request the end; the current transaction is completed first."""
        self._stopped.set()

    def stop(self) -> None:
        """Request the end, and wait for it up to `STOP_SECONDS`."""
        self.halt()
        if self._thread.is_alive():
            self._thread.join(STOP_SECONDS)

    def run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = self._poll if self.step() else min(max(pause, self._poll) * 2, MAX_POLL_SECONDS)

    def step(self) -> bool:
        """Do what is due; return False if that failed."""
        raise NotImplementedError

    def _report(self, what: str, error: Exception) -> None:
        log.error("%s has failed\n%s", what, redact_error(traceback.format_exc()))
        self._on_error(error)


class RetryJobThread(_JobThread):
    """Runs the retry job whenever something is due.

    `after_step` is called after each check, with the problem or "".
    """

    def __init__(
        self,
        job: RetryJob,
        *,
        after_step: Callable[[str], None] = lambda problem: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        super().__init__("retry-job", RETRY_POLL_SECONDS, on_error)
        self.job = job
        self._after_step = after_step
        job.stopped = self._stopped.is_set

    def stop(self) -> None:
        super().stop()
        if self._thread.is_alive():
            log.warning("the retry job does not end: a requeue= of the app hangs; it is left behind")

    def step(self) -> bool:
        problem = ""
        try:
            if self.job.is_due():
                for line in describe_run(self.job.run()):
                    log.debug("retry job: %s", line)
        except StoreError as error:
            problem = str(error)
            log.error("the retry job has not run: %s", error)
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
            self._report("the retry job", error)
        self._after_step(problem)
        return not problem


class ScheduleThread(_JobThread):
    """Publishes the ticks of an app's schedules; it asks the database at ticks only."""

    def __init__(self, ticker: Ticker, on_error: Callable[[Exception], None]) -> None:
        super().__init__("schedules", MAX_TICK_WAIT_SECONDS, on_error)
        self.ticker = ticker
        self._random = Random()

    def step(self) -> bool:
        try:
            self.ticker.run_due()
        except StoreError as error:
            log.warning("schedules have not run: %s", error)
            self._poll = RETRY_POLL_SECONDS
            return False
        except Exception as error:
            self._report("a schedule", error)
        now, moment = self.ticker.now, self.ticker.next_moment()
        left = MAX_TICK_WAIT_SECONDS if moment is None else moment - now
        self._poll = min(
            max(0.0, left) + self._random.uniform(0.0, MAX_TICK_JITTER_SECONDS), MAX_TICK_WAIT_SECONDS
        )
        return True


class BackgroundThread(_JobThread):
    """Runs a function of an app until the process ends."""

    def __init__(
        self, name: str, run: Callable[[Callable[[], bool]], object], on_error: Callable[[Exception], None]
    ) -> None:
        super().__init__(name.replace(" ", "-"), PERIODIC_POLL_SECONDS, on_error)
        self._name, self._run = name, run

    def step(self) -> bool:
        try:
            self._run(self._stopped.is_set)
        except StoreError as error:
            log.warning("%s: %s", self._name, error)
        except Exception as error:
            self._report(self._name, error)
        return True


@dataclass
class PeriodicJobs(_JobThread):
    """The periodic jobs of an app, each in one process at a time; the store keeps when each is due.

    Its schedules run in a thread beside, which no job holds up.
    """

    _open_store: Callable[[], Store]  # in the thread: a process starts even if the store cannot be reached
    _registry: Registry
    _: KW_ONLY
    holder: str
    on_error: Callable[[Exception], None] = lambda error: None

    def __post_init__(self) -> None:
        super().__init__("periodic-jobs", PERIODIC_POLL_SECONDS, self.on_error)
        self.schedules = ScheduleThread(Ticker(self._open_store, self._registry), self.on_error)
        jobs = self._registry.background.items()
        self.background = [BackgroundThread(name, run, self.on_error) for name, run in jobs]
        self._runs = 0
        self._random = Random()

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
        self._poll = PERIODIC_POLL_SECONDS
        for job in jobs:
            if job.due is not None:
                due = job.due()
                if due is not None and due <= store.now() and not self._stopped.is_set():
                    job.run(self._stopped.is_set)
                    ran.append(job.name)
                    due = job.due()
                left = math.inf if due is None else max(0.0, due - store.now())
                jitter = self._random.uniform(0.0, MAX_TICK_JITTER_SECONDS)
                self._poll = min(self._poll, job.every_seconds, left + jitter)
                continue
            self._runs += 1
            # A new holder each time: the role is held for the whole interval, also against this process.
            role, holder = f"periodic: {job.name}", f"{self.holder}:{self._runs}"
            if self._stopped.is_set() or not store.acquire_role(role, holder, job.every_seconds):
                continue
            try:
                job.run(self._stopped.is_set)
            except Exception:
                # The role ends early, so that the job does not wait for its whole interval.
                store.acquire_role(role, holder, min(job.every_seconds, FAILED_JOB_SECONDS))
                raise
            ran.append(job.name)
            if self._stopped.is_set():
                store.release_role(role, holder)  # it was interrupted: the next process runs it again
        return ran

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        if self._registry.periodic:
            super().start()
        if self._registry.schedules:
            self.schedules.start()
        for thread in self.background:
            thread.start()

    def stop(self) -> None:
        for thread in (self.schedules, *self.background):
            thread.halt()
        super().stop()
        for thread in (self.schedules, *self.background):
            thread.stop()

    def step(self) -> bool:
        try:
            self.run_due()
        except StoreError as error:
            log.warning("periodic jobs have not run: %s", error)
        except Exception as error:
            self._report("a periodic job", error)
        return True
