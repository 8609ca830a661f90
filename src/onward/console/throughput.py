"""How many documents were finished in the last minutes, as this server has seen it; all pages share it."""

from __future__ import annotations

import threading
from collections import deque
from dataclasses import dataclass, field
from itertools import pairwise

STEP_SECONDS = 10.0
"""The time that one bar of the chart stands for."""
STEPS = 60


@dataclass(slots=True)
class Throughput:
    """The number of finished documents at the end of each step; a forgotten source counts as nothing done."""

    _seen: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=STEPS + 1))
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def note(self, finished: int, now: float) -> None:
        """Store how many documents are finished now."""
        step = int(now // STEP_SECONDS)
        with self._lock:
            if self._seen and self._seen[-1][0] >= step:
                self._seen[-1] = (self._seen[-1][0], finished)
            else:
                self._seen.append((step, finished))

    def rates(self, now: float) -> list[float]:
        """Return the documents a second of each of the last steps, the newest last; empty if none were finished.

        What was finished between two distant notes is spread over that time.
        """
        with self._lock:
            seen = list(self._seen)
        last = int(now // STEP_SECONDS)
        rates = [0.0] * STEPS
        for (then, before), (step, finished) in pairwise(seen):
            each = max(0, finished - before) / ((step - then) * STEP_SECONDS)
            for one in range(max(then + 1, last - STEPS + 1), min(step, last) + 1):
                rates[one - last + STEPS - 1] = each
        return rates if any(rates) else []
