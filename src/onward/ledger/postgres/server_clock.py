"""The clock of a PostgreSQL server, so that all machines agree on due times."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

import psycopg

from onward.ledger.store_errors import StoreError

if TYPE_CHECKING:
    from onward.ledger.postgres.dialect import PostgresDatabase

REFRESH_SECONDS = 15.0  # After this time the server is asked for its time again
MAX_LATENCY_SECONDS = 1.0  # A reply that took longer is not accurate enough


class ServerClock:
    """The server's time, calculated from this machine's monotonic clock and refreshed now and then."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._offset = 0.0
        self._refreshed_at = -REFRESH_SECONDS
        self._refresh()

    def now(self) -> float:
        now = time.monotonic()
        if now - self._refreshed_at > REFRESH_SECONDS and self._lock.acquire(blocking=False):
            try:
                self._refresh()
            except (StoreError, psycopg.Error):
                self._refreshed_at = time.monotonic()  # the last offset is used until the server is back
            finally:
                self._lock.release()
            now = time.monotonic()
        return now + self._offset

    def _refresh(self) -> None:
        before, server_time, after = self._database.server_time()
        if after - before < MAX_LATENCY_SECONDS or not self._offset:
            self._offset = server_time - (before + after) / 2
        self._refreshed_at = after
