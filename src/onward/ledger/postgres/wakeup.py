"""Waking workers on a PostgreSQL database: commits of other processes arrive by LISTEN and NOTIFY."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING

import psycopg

from onward.ledger.postgres.connections import Connection
from onward.ledger.store_errors import StoreUnavailable
from onward.retry import redact

if TYPE_CHECKING:
    from onward.ledger.postgres.dialect import PostgresDatabase


class ListeningBus:
    """Listens on a connection of its own; without one, workers poll the ledger."""

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._closed = False
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> None:
        try:
            self._wait(seconds)
        except (psycopg.Error, OSError, ValueError) as error:
            self._drop()
            raise StoreUnavailable(f"{self._database.connections.address}: {redact(str(error))}") from error
        finally:
            if self._closed:
                self._drop()

    def _wait(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while not self._closed and (left := ends - time.monotonic()) > 0:
            if self._connection is None:
                self._connection = self._database.connections.open()
                self._connection.execute(f"LISTEN {self._database.channel}".encode())
            readable, _, _ = select.select([self._connection.fileno(), self._read_end], [], [], left)
            if self._read_end in readable:
                with suppress(BlockingIOError):
                    os.read(self._read_end, 4096)
                return
            if readable:
                self._connection.pgconn.consume_input()
                if list(iter(self._connection.pgconn.notifies, None)):
                    return

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wake(self) -> None:
        with self._lock:
            if not self._closed:
                with suppress(BlockingIOError):
                    os.write(self._write_end, b"!")

    def close(self) -> None:
        """Close; a waiting thread returns."""
        self.wake()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # Not the reading end of the pipe, nor the connection: the waiting thread may use them, and closes them.
        os.close(self._write_end)

    def __del__(self) -> None:
        self._drop()
        with suppress(OSError):
            os.close(self._read_end)
        if not self._closed:
            with suppress(OSError):
                os.close(self._write_end)
