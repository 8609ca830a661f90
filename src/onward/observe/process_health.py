"""Whether a process is alive, and whether it is able to work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from onward.retry import redact

CHECK_SECONDS = 2.0
"""The time between two runs of a check."""
STALE_SECONDS = 15.0
"""A check without a result for this long has failed: a server that does not respond blocks its check."""
SILENT_SECONDS = 60.0
"""A process whose main loop gave no sign of life for this long counts as dead."""

Check = Callable[[], str]
"""Returns what is wrong, or an empty text. It may raise, and it may block."""


class Health:
    """Runs each check in a thread of its own and keeps the last results, so that reading them never blocks."""

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = dict(checks)
        self._results: dict[str, tuple[float, str]] = {}
        self._beat_at = time.monotonic()
        self._stopped = threading.Event()

    def start(self) -> None:
        for name, check in self._checks.items():
            threading.Thread(
                target=self._run, args=(name, check), name=f"onward-health-{name}", daemon=True
            ).start()

    def stop(self) -> None:
        self._stopped.set()

    def beat(self) -> None:
        """Record that the main loop is running."""
        self._beat_at = time.monotonic()

    def note(self, name: str, problem: str) -> None:
        """Record the result of a check that runs elsewhere."""
        self._results[name] = (time.monotonic(), redact(problem))

    def _run(self, name: str, check: Check) -> None:
        while not self._stopped.is_set():
            try:
                problem = check()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            self.note(name, problem)
            self._stopped.wait(CHECK_SECONDS)

    def alive(self) -> tuple[bool, dict[str, str]]:
        """Return whether the main loop is running, with the result by name."""
        silent = time.monotonic() - self._beat_at
        if silent < SILENT_SECONDS:
            return True, {"loop": "ok"}
        return False, {"loop": f"the main loop has given no sign of life for {silent:.0f} s"}

    def ready(self) -> tuple[bool, dict[str, str]]:
        """Return whether the process can work, with the results of all checks by name."""
        now, results = time.monotonic(), dict[str, str]()
        for name in (*self._checks, *(set(self._results) - set(self._checks))):
            at, problem = self._results.get(name, (float("-inf"), ""))
            if now - at > STALE_SECONDS:
                problem = "no answer yet" if at == float("-inf") else f"no answer for {now - at:.0f} s"
            results[name] = problem or "ok"
        alive, loop = self.alive()
        return alive and all(result == "ok" for result in results.values()), results | loop
