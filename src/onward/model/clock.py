"""Time is always read from a clock, so that a test can run three days in milliseconds."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Protocol


class Clock(Protocol):
    def now(self) -> float:
        """Return the time in seconds since the epoch."""
        ...


class SystemClock:
    now = staticmethod(time.time)


def utc_text(at: float) -> str:
    """Return a time as ISO 8601 in UTC, as it leaves the process in JSON.

    >>> utc_text(1_700_000_000.25)
    '2023-11-14T22:13:20.250000Z'
    """
    return datetime.fromtimestamp(at, UTC).isoformat().replace("+00:00", "Z")
