"""What takes long to find out, kept for a moment for everybody who asks."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Recent(Generic[T]):
    """The last answer to a question, as long as it is fresh and was asked of the same."""

    def __init__(self, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: tuple[object, float, T] | None = None

    def get(self, about: object, find: Callable[[], T]) -> T:
        """The answer to this; of several who ask at once, one finds it out and the others wait for that."""
        with self._lock:
            if self._kept is not None:
                asked, until, answer = self._kept
                if asked == about and self._clock() < until:
                    return answer
            answer = find()
            self._kept = (about, self._clock() + self._seconds, answer)
            return answer
