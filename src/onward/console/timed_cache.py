"""A value that costs something to compute, kept for a few seconds for all pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TimedCache(Generic[T]):
    """Keeps the last value for a few seconds, for all pages, as long as it is requested with the same key."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[object, float, T] | None = None

    def get(self, key: object, compute: Callable[[], T]) -> T:
        """Return the value; of several threads at once, one computes it and the others wait for that."""
        with self._lock:
            if self._kept is None or self._kept[0] != key or self._clock() >= self._kept[1]:
                value = compute()
                self._kept = (key, self._clock() + self._seconds, value)
            return self._kept[2]
