"""Runs the retry job in a thread beside the workers, whenever something is due."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable

from onward.ledger.store_errors import StoreError
from onward.recovery.retry_job import RetryJob, describe_run
from onward.retry import redact_error

log = logging.getLogger("onward")

POLL_SECONDS = 2.0
MAX_POLL_SECONDS = 60.0
"""The poll interval doubles up to this while runs fail."""
STOP_SECONDS = 10.0
"""How long `stop` waits for the current transaction."""


class RetryJobThread:
    """Runs the retry job until it is stopped; no error ends it.

    `after_step` is called after each check, with the problem or "". `on_error` is called with unexpected errors.
    """

    def __init__(
        self,
        job: RetryJob,
        *,
        poll: float = POLL_SECONDS,
        after_step: Callable[[str], None] = lambda problem: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        self.job = job
        self._after_step = after_step
        self._on_error = on_error
        self._poll = poll
        self._stopped = threading.Event()
        job.stopped = self._stopped.is_set
        self._thread = threading.Thread(target=self.run, name="onward-retry-job", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def halt(self) -> None:
        """Request the end; the current transaction is completed first."""
        self._stopped.set()

    def stop(self) -> None:
        """Request the end, and wait for it up to `STOP_SECONDS`."""
        self.halt()
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            log.warning("the retry job does not end: a requeue= of the app hangs; it is left behind")

    def run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = self._poll if self.step() else min(max(pause, self._poll) * 2, MAX_POLL_SECONDS)

    def step(self) -> bool:
        """Run the job if something is due; return False if that failed."""
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
            log.error("the retry job has failed\n%s", redact_error(traceback.format_exc()))
            self._on_error(error)
        self._after_step(problem)
        return not problem
