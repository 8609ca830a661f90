"""The port to a database: what a dialect (SQLite, PostgreSQL) implements for the store."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from onward.model.clock import Clock
from onward.search.text_snapshot import SearchDatabase


class Bus(Protocol):
    """Wakes a worker up. A wake-up is only a hint: the worker then reads the ledger."""

    def wait(self, seconds: float) -> bool:
        """Return True when rows may have become due, or `wake` is called; False after this time."""

    def wake(self) -> None:
        """Make `wait` return; callable from any thread."""

    def close(self) -> None: ...


class Database(SearchDatabase, Protocol):
    """Connections, transactions and named statements of one database.

    A transaction locks what it reads until it ends. Rows that may not exist yet are locked by name.
    """

    remote: bool  # Whether it is a server. Then calls wait for the network and are kept off the event loop
    keeps_old_rows: bool  # Whether scans walk rows that were changed while an open transaction can see them
    returned: int  # Grows when a process has returned rows to the queue that were due before
    incoming: int  # Grows when a transaction of another connection may have put something into `incoming`
    kind: str  # `sqlite` or `postgresql`
    file: str | None  # The file of an embedded database, which other connections can open
    incoming_table: str  # The name of `incoming` in a statement of another connection

    def clock(self) -> Clock:
        """Return the clock for due times and leases that all users of the database share."""

    def exact_time(self) -> float:
        """Return the time of the database itself: a later transaction of any process gets a later time."""

    def bus(self) -> Bus:
        """Return what wakes a worker up when another process has committed."""

    def close(self) -> None: ...

    def transaction(self, *, alone: bool = False) -> AbstractContextManager[None]:
        """Hold the lock or connection for writing; nested blocks join the outermost one.

        With `alone`, no other transaction runs at the same time; for rare changes that all others rely on.
        """

    def in_transaction(self) -> bool:
        """Return whether this thread is in a transaction."""

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        """Lock these names against other transactions until the end; return False if there are no others."""

    def notify_on_commit(self, woken: set[str], returned: set[str]) -> None:
        """After the commit, wake workers in other processes, if `woken` has services by then.

        `returned` has the services whose rows have returned to the queue with an earlier due time.
        """

    def read(self, name: str, *parameters: Any) -> Any:
        """Return the result of a named query, as plain lists and values; in a transaction, lock the rows."""

    def read_unlocked(self, name: str, *parameters: Any) -> Any:
        """Return the result of a named query, as `read` does, without locking anything."""

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a named query; for values that JSON cannot carry, such as bytes."""

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement; return how many rows it changed."""

    def send(self, name: str, *parameters: Any) -> None:
        """Execute a named statement without waiting; an error is raised later in the transaction."""

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named statement for many rows at once."""

    def reserve(self, table: str) -> int:
        """Return a row id that was never used and that no other caller gets."""
