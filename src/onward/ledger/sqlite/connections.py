"""Read connections to one SQLite file, shared by all threads of the process."""

from __future__ import annotations

import sqlite3
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from onward.ledger.store_errors import StoreError, StoreUnavailable

MAX_READERS = 8  # Read connections of a process. Each has two file descriptors and a page cache
WAIT_SECONDS = 30.0  # How long a read waits for a connection to become free


class ReaderPool:
    """Opens read connections when they are needed, and uses them again.

    A connection is taken for one statement and its rows: it holds no snapshot afterwards, and a thread never waits
    for a connection while it holds another.
    """

    def __init__(self, path: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path = path
        self._connect = connect
        self._idle: list[sqlite3.Connection] = []
        self._opened = 0
        self._waiting = 0
        self._closed = False
        self._given_back = threading.Condition()

    def fetch(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """Execute a statement; return its rows."""
        connection = self.take()
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            self.give_back(connection)

    def take(self) -> sqlite3.Connection:
        """Return a connection that no other thread uses."""
        # pop() and append() of a list are atomic: the lock is needed only if the list is empty.
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_or_wait()

    def give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self._close_idle()
        if self._waiting:
            with self._given_back:
                self._given_back.notify()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        self._closed = True
        self._close_idle()
        with self._given_back:
            self._given_back.notify_all()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _open_or_wait(self) -> sqlite3.Connection:
        gives_up = time.monotonic() + WAIT_SECONDS
        with self._given_back:
            self._waiting += 1  # before the list is read: a connection given back after that notifies
            try:
                while True:
                    with suppress(IndexError):
                        return self._idle.pop()
                    if self._closed:
                        raise StoreError(f"{self._path} is closed; open the store again")
                    if self._opened < MAX_READERS:
                        connection = self._connect()
                        self._opened += 1
                        return connection
                    if not self._given_back.wait(gives_up - time.monotonic()):
                        raise StoreUnavailable(
                            f"all {MAX_READERS} read connections of this process to {self._path} were busy for "
                            f"{WAIT_SECONDS:g} s. Send fewer requests at once, or try again later"
                        )
            finally:
                self._waiting -= 1
