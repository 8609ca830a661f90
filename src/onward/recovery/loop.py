"""Running the retry job beside the workers: in a thread, whenever something falls due."""

from __future__ import annotations

import logging
import threading
import traceback
from collections.abc import Callable

from onward.ports import StoreError
from onward.recovery.retry_job import RetryJob, described
from onward.retry import redact_error

log = logging.getLogger("onward")

POLL = 2.0
"""Seconds between two looks for what has fallen due."""
SLOWEST = 60.0
PATIENCE = 10.0
"""Seconds that whoever ends waits for the transaction under way."""


class RetryLoop:
    """Runs the retry job until it is stopped; nothing that fails in it ends it."""

    def __init__(
        self,
        job: RetryJob,
        *,
        poll: float = POLL,
        after_step: Callable[[str], None] = lambda problem: None,
        on_error: Callable[[Exception], None] = lambda error: None,
    ) -> None:
        """`after_step` is told what went wrong, or nothing, each time that something could have been due.

        `on_error` is told of what nobody expected.
        """
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
        """Let it end, after what it is doing."""
        self._stopped.set()

    def stop(self) -> None:
        """End it, and wait for that."""
        self.halt()
        self._thread.join(PATIENCE)
        if self._thread.is_alive():
            log.warning("the retry job does not end: a requeue= of the app hangs; it is left behind")

    def run(self) -> None:
        pause = 0.0
        while not self._stopped.wait(pause):
            pause = self._poll if self.step() else min(max(pause, self._poll) * 2, SLOWEST)

    def step(self) -> bool:
        """Run the job if something is due; answer whether that went well."""
        problem = ""
        try:
            if self.job.is_due():
                for line in described(self.job.run()):
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
