"""Waking workers on an SQLite file: commits of other processes are detected by polling."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.ledger.sqlite.dialect import SQLiteDatabase

POLL_SECONDS = 0.02


class PollingBus:
    """Polls the file for commits of other connections, which takes a few microseconds."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._database = database
        self._woken = threading.Event()
        self._seen = database.changes()

    def wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            if self._woken.wait(min(POLL_SECONDS, left)):
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
