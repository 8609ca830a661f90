"""Hearing of due rows in a PostgreSQL database: commits elsewhere are told by LISTEN and NOTIFY."""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from typing import Any

import psycopg

from onward.backends.postgres.database import Database
from onward.ports import StoreUnavailable
from onward.retry import redact


class ListeningBus:
    """Listens on a connection of its own; while there is none, whoever waits looks by itself."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._connection: psycopg.Connection[Any] | None = None
        self._hears, self._wakes = os.pipe()
        os.set_blocking(self._wakes, False)
        os.set_blocking(self._hears, False)
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
            connection = self._listen()
            readable, _, _ = select.select([connection.fileno(), self._hears], [], [], left)
            if self._hears in readable:
                with suppress(BlockingIOError):
                    os.read(self._hears, 4096)
                return
            if readable and self._heard(connection):
                return

    def _listen(self) -> psycopg.Connection[Any]:
        if self._connection is None:
            self._connection = self._database.connections.open()
            self._connection.execute(f"LISTEN {self._database.channel}".encode())
        return self._connection

    def _heard(self, connection: psycopg.Connection[Any]) -> bool:
        connection.pgconn.consume_input()
        heard = False
        while connection.pgconn.notifies() is not None:
            heard = True
        return heard

    def _drop(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def wake(self) -> None:
        with self._lock:
            if not self._closed:
                with suppress(BlockingIOError):
                    os.write(self._wakes, b"!")

    def close(self) -> None:
        """End; whoever waits returns."""
        self.wake()
        with self._lock:
            if self._closed:
                return
            self._closed = True
        # Not the pipe's reading end, nor the connection: the thread that waits may be using them. They go with it.
        os.close(self._wakes)

    def __del__(self) -> None:
        self._drop()
        with suppress(OSError):
            os.close(self._hears)
        if not self._closed:
            with suppress(OSError):
                os.close(self._wakes)
