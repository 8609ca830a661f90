"""One PostgreSQL database: its transactions, locks, named statements and full-text queries."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from onward.backends.postgres import migrating, searching
from onward.backends.postgres.connections import LOCK_SECONDS, Connections
from onward.backends.postgres.explaining import explained
from onward.backends.postgres.statements import Shape, Statement, array, statement
from onward.ports import StoreConflict, StoreError, StoreFull, StoreUnavailable

BLOCK = 1024
"""Row ids that a process takes from a sequence at a time."""
_COMPLETED: Mapping[str, Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any]]]] = {
    "insert_texts": searching.text_rows
}
"""Statements whose rows have columns that only this database needs."""


class Database:
    """A schema of a PostgreSQL database. Each transaction has a connection of its own, as has each read."""

    def __init__(self, url: str, *, patience: float = 60.0) -> None:
        self.connections = Connections(url, patience=patience)
        self.schema = self.connections.schema
        self._local = threading.local()
        self._ids: dict[str, tuple[int, int]] = {}
        self._ids_lock = threading.Lock()
        self._gate = _number(f"{self.schema}/gate")
        self._together = ("BEGIN", f"SELECT pg_advisory_xact_lock_shared({self._gate})")
        # Behind one that waits for the gate everybody waits: so not for long, but again and again.
        self._alone = (
            "BEGIN",
            "SET LOCAL lock_timeout = '1s'",
            f"SELECT pg_advisory_xact_lock({self._gate})",
            f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'",
        )
        self.channel = f"onward_{self._gate & 0xFFFFFFFF:08x}"
        try:
            migrating.migrate(self.connections)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        self.connections.close()

    # -- transactions

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[None]:
        """Commit at the end of the outermost block, or roll everything back.

        Every transaction holds a gate, shared; one that is to be alone waits until it has the gate for itself.
        """
        if (connection := self._current()) is not None:
            if alone:
                self._execute(connection, f"SELECT pg_advisory_xact_lock({self._gate})")
            try:
                yield
            except BaseException:
                self._local.broken = True
                raise
            return
        with self.connections.use() as connection:
            self._local.connection, self._local.broken, self._local.watched = connection, False, []
            try:
                with self._ahead(connection):
                    for step in self._alone if alone else self._together:
                        self._execute(connection, step)
                    yield
                    if self._local.broken:
                        raise StoreError("a step of this transaction failed, so nothing of it was written")
                self._commit(connection)
            except BaseException:
                self._roll_back(connection)
                raise
            finally:
                self._local.connection = None
            if any(self._local.watched):
                self._tell(connection)

    @contextmanager
    def _ahead(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Send what needs no answer without waiting for one; at the end, all is answered."""
        pipeline = connection.pipeline()
        self._local.pipeline = pipeline.__enter__()
        try:
            yield
        except BaseException:
            # What failed is known: of what was sent after it, nothing more is to be heard.
            with suppress(psycopg.Error), self.connections.watched(connection):
                pipeline.__exit__(None, None, None)
            raise
        else:
            with self._explained(connection):
                pipeline.__exit__(None, None, None)
        finally:
            self._local.pipeline = None

    def _catch_up(self, connection: psycopg.Connection[Any]) -> None:
        """Wait until everything that was sent is done, and hear what failed."""
        with self._explained(connection):
            self._local.pipeline.sync()

    def _commit(self, connection: psycopg.Connection[Any]) -> None:
        try:
            if self._execute(connection, "COMMIT").statusmessage != "COMMIT":
                raise StoreConflict("a statement failed, and nobody has said so: nothing was written")
        except (StoreConflict, StoreFull):
            raise
        except StoreError as error:
            # Whatever is said: nobody knows whether it was made.
            raise StoreUnavailable(str(error)) from error

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        try:
            if not connection.closed:
                with self.connections.watched(connection):
                    # Not by execute(): statements whose preparation was rolled back must be forgotten, too.
                    connection.rollback()
        except psycopg.Error:
            connection.close()

    def _tell(self, connection: psycopg.Connection[Any]) -> None:
        """Wake workers elsewhere. After the commit: one that notifies makes all others that do wait for it."""
        try:
            with self.connections.watched(connection):
                connection.execute(f"NOTIFY {self.channel}")
        except psycopg.Error:
            connection.close()  # they look by themselves before long

    def in_transaction(self) -> bool:
        return self._current() is not None

    def _current(self) -> psycopg.Connection[Any] | None:
        return getattr(self._local, "connection", None)

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        """Keep other transactions off these names until the end of this one."""
        numbers = sorted({_number(f"{self.schema}/{kind}/{name}") for name in names})
        query = "SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) n"
        self._execute(self._here(), query, [array(numbers)])
        return True

    def watch(self, woken: set[str]) -> None:
        """When the transaction is committed, tell workers elsewhere, if services were woken by then."""
        if self.in_transaction():
            self._local.watched.append(woken)

    # -- statements

    def read(self, name: str, *parameters: Any) -> Any:
        """The answer of a named query; in a transaction, what it reads in order to change it is locked."""
        return self._read(name, parameters, lock=self.in_transaction())

    def glance(self, name: str, *parameters: Any) -> Any:
        return self._read(name, parameters, lock=False)

    def _read(self, name: str, parameters: Sequence[Any], *, lock: bool) -> Any:
        query = statement(name)
        rows = self._rows(query, parameters, lock=lock)
        match query.shape:
            case Shape.ROWS:
                return rows
            case Shape.COLUMN:
                return [row[0] for row in rows]
            case Shape.ROW:
                return list(rows[0]) if rows else None
            case _:
                return rows[0][0] if rows else None

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query; bytes come as they are, not as text."""
        return self._rows(statement(name), parameters, lock=self.in_transaction(), binary=True)

    def _rows(
        self, query: Statement, parameters: Sequence[Any], *, lock: bool, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        text, values = query.text(lock=lock), query.values(parameters)
        if (connection := self._current()) is not None:
            return self._answer(connection, text, values, binary=binary)
        with self.connections.use() as connection:
            return self._answer(connection, text, values, binary=binary)

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement inside a transaction; answer how many rows it changed."""
        cursor = self._send(name, parameters)
        self._catch_up(self._here())
        return cursor.rowcount

    def send(self, name: str, *parameters: Any) -> None:
        """The same without waiting for the answer: what fails shows later in the transaction."""
        self._send(name, parameters)

    def _send(self, name: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        query = statement(name)
        if len(parameters) == 1 and isinstance(parameters[0], Mapping):
            parameters = tuple(parameters[0][one] for one in query.names)
        return self._execute(self._here(), query.text(), query.values(parameters))

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named statement for many rows, column by column."""
        if not rows:
            return
        query = statement(name)
        rows = _COMPLETED[name](rows) if name in _COMPLETED else rows
        columns = [list(rows)] if query.as_json else list(zip(*rows, strict=True))
        self._execute(self._here(), *query.spread(columns))

    def _here(self) -> psycopg.Connection[Any]:
        connection = self._current()
        assert connection is not None, "what changes something is part of a transaction"
        return connection

    def _execute(
        self,
        connection: psycopg.Connection[Any],
        text: str,
        values: Sequence[Any] | None = None,
        *,
        binary: bool = False,
    ) -> psycopg.Cursor[Any]:
        with self._explained(connection):
            return connection.execute(text.encode(), values, binary=binary)

    def _answer(
        self,
        connection: psycopg.Connection[Any],
        text: str,
        values: Sequence[Any] | None = None,
        *,
        binary: bool = False,
    ) -> list[tuple[Any, ...]]:
        with self._explained(connection):
            cursor = connection.execute(text.encode(), values, binary=binary)
            if (pipeline := getattr(self._local, "pipeline", None)) is not None:
                # Fetching would do; but the server knows who idles in a transaction only from one of these on.
                pipeline.sync()
            return cursor.fetchall()

    @contextmanager
    def _explained(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Wait no longer than one may, and say what went wrong."""
        try:
            with self.connections.watched(connection):
                yield
        except psycopg.Error as error:
            self._local.broken = True  # whoever catches this must not commit the rest
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.InvalidSqlStatementName):
                connection.close()  # the next one goes to whoever is written to now, and knows of no statements
            raise explained(error, self.connections.address) from error

    # -- what differs between databases

    def reserve(self, table: str) -> int:
        """A row id that nobody else gets; a process takes many at a time."""
        while True:
            with self._ids_lock:
                number, end = self._ids.get(table, (0, 0))
                if number < end:
                    self._ids[table] = (number + 1, end)
                    return number
            # Not while others are kept waiting: it is answered after all that this transaction has sent.
            block = self._scalar(f"SELECT nextval('{table}_blocks')") * BLOCK
            with self._ids_lock:
                self._ids[table] = (block, block + BLOCK)

    def clock(self) -> tuple[float, float, float]:
        """The database's own time, between two times of this process's clock."""
        with self.connections.use() as connection:
            before = time.monotonic()
            found = self._answer(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
            return before, float(found[0][0]), time.monotonic()

    def _scalar(self, text: str) -> Any:
        if (connection := self._current()) is not None:
            return self._answer(connection, text)[0][0]
        with self.connections.use() as connection:
            return self._answer(connection, text)[0][0]


def _number(name: str) -> int:
    """A name as a number for an advisory lock."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
