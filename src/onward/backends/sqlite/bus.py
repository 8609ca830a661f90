"""Hearing of due rows in an SQLite file: other processes' commits are noticed by asking."""

from __future__ import annotations

import threading
import time

from onward.backends.sqlite.database import Database

_STEP = 0.02


class PollingBus:
    """Asks the file, a few microseconds at a time, whether somebody else has written."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._woken = threading.Event()
        self._seen = database.changes()

    def wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if self._woken.wait(min(_STEP, left)):
                break
            version = self._database.changes()
            if version != self._seen:
                self._seen = version
                break
        self._woken.clear()

    def wake(self) -> None:
        self._woken.set()

    def close(self) -> None:
        self.wake()
