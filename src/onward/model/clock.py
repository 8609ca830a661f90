"""Time is always read from a clock, so that a test can run three days in milliseconds."""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        ...


class SystemClock:
    now = staticmethod(time.time)
