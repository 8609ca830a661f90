"""Caches a value that takes long to compute, for a short time and for all pages."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class TimedCache(Generic[T]):
    """Keeps the last value for a few seconds, as long as it is requested with the same key."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[object, float, T] | None = None

    def get(self, key: object, compute: Callable[[], T]) -> T:
        """Return the value; of several threads at once, one computes it and the others wait for that."""
        with self._lock:
            if self._kept is not None:
                kept_key, until, value = self._kept
                if kept_key == key and self._clock() < until:
                    return value
            value = compute()
            self._kept = (key, self._clock() + self._seconds, value)
            return value
