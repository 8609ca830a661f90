"""Running the retry job beside the workers: in a thread, whenever something falls due."""

from __future__ import annotations

import logging
import threading
import traceback

from onward.ports import StoreError
from onward.recovery.retry_job import RetryJob, described
from onward.retry import redact

log = logging.getLogger("onward")

POLL = 2.0
"""Seconds between two looks for what has fallen due."""
SLOWEST = 60.0
PATIENCE = 10.0
"""Seconds that whoever ends waits for the transaction under way."""


class RetryLoop:
    """Runs the retry job until it is stopped; nothing that fails in it ends it."""

    def __init__(self, job: RetryJob, *, poll: float = POLL) -> None:
        self.job = job
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
        try:
            if self.job.is_due():
                for line in described(self.job.run()):
                    log.debug("retry job: %s", line)
        except StoreError as error:
            log.error("the retry job has not run: %s", error)
            return False
        except Exception:
            log.error("the retry job has failed\n%s", redact(traceback.format_exc()))
            return False
        return True
