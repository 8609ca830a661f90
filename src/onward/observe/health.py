"""Whether a process is alive, and whether it is able to work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping

from onward.retry import redact

EVERY = 2.0
"""Seconds between two looks."""
STALE = 15.0
"""Seconds after which no answer is taken for a bad one: a server that says nothing hangs whoever asks it."""
SILENT = 60.0
"""Seconds without a sign of life of the main loop after which a process counts as dead."""

Check = Callable[[], str]
"""Answers what is wrong; an empty text: nothing. May raise, and may take its time."""


class Health:
    """Looks again and again, each check in a thread of its own, and knows the last answers.

    Whoever asks is answered at once: also while the store is away, and does not even say so.
    """

    def __init__(self, checks: Mapping[str, Check]) -> None:
        self._checks = dict(checks)
        self._found: dict[str, tuple[float, str]] = {}
        self._beat = time.monotonic()
        self._stopped = threading.Event()

    def start(self) -> None:
        for name, check in self._checks.items():
            threading.Thread(
                target=self._look, args=(name, check), name=f"onward-health-{name}", daemon=True
            ).start()

    def stop(self) -> None:
        self._stopped.set()

    def beat(self) -> None:
        """Said by the main loop: it goes on."""
        self._beat = time.monotonic()

    def note(self, name: str, problem: str) -> None:
        """The answer of a check that somebody else makes."""
        self._found[name] = (time.monotonic(), redact(problem))

    def _look(self, name: str, check: Check) -> None:
        while not self._stopped.is_set():
            try:
                problem = check()
            except Exception as error:
                problem = f"{type(error).__name__}: {error}"
            self.note(name, problem)
            self._stopped.wait(EVERY)

    def alive(self) -> tuple[bool, dict[str, str]]:
        silent = time.monotonic() - self._beat
        problem = "" if silent < SILENT else f"the main loop has given no sign of life for {silent:.0f} s"
        return not problem, {"loop": problem or "ok"}

    def ready(self) -> tuple[bool, dict[str, str]]:
        now, told = time.monotonic(), dict[str, str]()
        for name in (*self._checks, *(set(self._found) - set(self._checks))):
            at, problem = self._found.get(name, (float("-inf"), ""))
            if now - at > STALE:
                problem = "no answer yet" if at == float("-inf") else f"no answer for {now - at:.0f} s"
            told[name] = problem or "ok"
        well, loop = self.alive()
        return well and all(one == "ok" for one in told.values()), told | loop
