"""The PostgreSQL dialect: transactions, locks and named statements of one schema."""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

import psycopg

from onward.ledger.postgres import fulltext as postgres_fulltext
from onward.ledger.postgres import schema_migration
from onward.ledger.postgres.connections import LOCK_SECONDS, Connections
from onward.ledger.postgres.error_messages import explained
from onward.ledger.postgres.server_clock import ServerClock
from onward.ledger.postgres.statements import Shape, Statement, array, statement
from onward.ledger.postgres.wakeup import ListeningBus
from onward.ledger.store_errors import StoreConflict, StoreError, StoreFull, StoreUnavailable

if TYPE_CHECKING:
    from onward.ledger.dialect import Bus
    from onward.model.clock import Clock
    from onward.search.fulltext import FullText

ID_BLOCK = 1024  # Row ids that a process takes from a sequence at a time
_COMPLETED: Mapping[str, Callable[[Sequence[Sequence[Any]]], Sequence[Sequence[Any]]]] = {
    "insert_texts": postgres_fulltext.text_rows
}
"""Statements whose rows have columns that only this database needs."""


class PostgresDatabase:
    """A schema of a PostgreSQL database. Each transaction has a connection of its own, as has each read."""

    remote = True
    fulltext: FullText = postgres_fulltext

    def __init__(self, url: str, *, patience: float = 60.0) -> None:
        self.connections = Connections(url, patience=patience)
        self.schema = self.connections.schema
        self._local = threading.local()
        self._ids: dict[str, tuple[int, int]] = {}
        self._ids_lock = threading.Lock()
        self._gate = _number(f"{self.schema}/gate")
        self._begin_shared = ("BEGIN", f"SELECT pg_advisory_xact_lock_shared({self._gate})")
        # While a transaction waits for the gate, all others wait behind it: so it waits briefly, and is repeated.
        self._begin_alone = (
            "BEGIN",
            "SET LOCAL lock_timeout = '1s'",
            f"SELECT pg_advisory_xact_lock({self._gate})",
            f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'",
        )
        self.channel = f"onward_{self._gate & 0xFFFFFFFF:08x}"
        try:
            schema_migration.migrate(self.connections)
        except BaseException:
            self.close()
            raise

    def clock(self) -> Clock:
        return ServerClock(self)

    def bus(self) -> Bus:
        return ListeningBus(self)

    def sweep(self) -> None:
        """Do nothing: statements that add rows remove old ones."""

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
                with self._pipeline(connection):
                    for step in self._begin_alone if alone else self._begin_shared:
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
                self._notify(connection)

    @contextmanager
    def _pipeline(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Send statements in a pipeline, without waiting for results that are not needed; wait at the end."""
        pipeline = connection.pipeline()
        self._local.pipeline = pipeline.__enter__()
        try:
            yield
        except BaseException:
            # The error is known; results of what was sent after it do not matter.
            with suppress(psycopg.Error), self.connections.time_limited(connection):
                pipeline.__exit__(None, None, None)
            raise
        else:
            with self._explain_errors(connection):
                pipeline.__exit__(None, None, None)
        finally:
            self._local.pipeline = None

    def _sync(self, connection: psycopg.Connection[Any]) -> None:
        """Wait until everything that was sent is done, and raise what failed."""
        with self._explain_errors(connection):
            self._local.pipeline.sync()

    def _commit(self, connection: psycopg.Connection[Any]) -> None:
        try:
            if self._execute(connection, "COMMIT").statusmessage != "COMMIT":
                raise StoreConflict("a statement failed without an error: nothing was written")
        except (StoreConflict, StoreFull):
            raise
        except StoreError as error:
            # Whatever the error: it is unknown whether the commit was made.
            raise StoreUnavailable(str(error)) from error

    def _roll_back(self, connection: psycopg.Connection[Any]) -> None:
        try:
            if not connection.closed:
                with self.connections.time_limited(connection):
                    # Not by execute(): statements whose preparation was rolled back must be forgotten, too.
                    connection.rollback()
        except psycopg.Error:
            connection.close()

    def _notify(self, connection: psycopg.Connection[Any]) -> None:
        """Wake workers in other processes. After the commit: transactions that notify wait for each other."""
        try:
            with self.connections.time_limited(connection):
                connection.execute(f"NOTIFY {self.channel}")
        except psycopg.Error:
            connection.close()  # the workers poll the ledger before long

    def in_transaction(self) -> bool:
        return self._current() is not None

    def _current(self) -> psycopg.Connection[Any] | None:
        return getattr(self._local, "connection", None)

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        """Lock these names against other transactions until the end of this one."""
        numbers = sorted({_number(f"{self.schema}/{kind}/{name}") for name in names})
        query = "SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) n"
        self._execute(self._here(), query, [array(numbers)])
        return True

    def notify_on_commit(self, woken: set[str]) -> None:
        """After the commit, wake workers in other processes, if `woken` has services by then."""
        if self.in_transaction():
            self._local.watched.append(woken)

    # -- statements

    def read(self, name: str, *parameters: Any) -> Any:
        """Return the result of a named query; in a transaction, lock the rows of its `{lock …}`."""
        return self._read(name, parameters, lock=self.in_transaction())

    def read_unlocked(self, name: str, *parameters: Any) -> Any:
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
        """Return the rows of a named query, with bytes as bytes, not as text."""
        return self._rows(statement(name), parameters, lock=self.in_transaction(), binary=True)

    def _rows(
        self, query: Statement, parameters: Sequence[Any], *, lock: bool, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        text, values = query.text(lock=lock), query.values(parameters)
        if (connection := self._current()) is not None:
            return self._fetch(connection, text, values, binary=binary)
        with self.connections.use() as connection:
            return self._fetch(connection, text, values, binary=binary)

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement inside a transaction; return how many rows it changed."""
        cursor = self._send(name, parameters)
        self._sync(self._here())
        return cursor.rowcount

    def send(self, name: str, *parameters: Any) -> None:
        """Execute a named statement without waiting for its result; an error is raised later."""
        self._send(name, parameters)

    def _send(self, name: str, parameters: Sequence[Any]) -> psycopg.Cursor[Any]:
        query = statement(name)
        if len(parameters) == 1 and isinstance(parameters[0], Mapping):
            parameters = tuple(parameters[0][name] for name in query.names)
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
        assert connection is not None, "changes are made in a transaction"
        return connection

    def _execute(
        self,
        connection: psycopg.Connection[Any],
        text: str,
        values: Sequence[Any] | None = None,
        *,
        binary: bool = False,
    ) -> psycopg.Cursor[Any]:
        with self._explain_errors(connection):
            return connection.execute(text.encode(), values, binary=binary)

    def _fetch(
        self,
        connection: psycopg.Connection[Any],
        text: str,
        values: Sequence[Any] | None = None,
        *,
        binary: bool = False,
    ) -> list[tuple[Any, ...]]:
        with self._explain_errors(connection):
            cursor = connection.execute(text.encode(), values, binary=binary)
            if (pipeline := getattr(self._local, "pipeline", None)) is not None:
                # Fetching would do, but the server counts idle time in a transaction only after a sync.
                pipeline.sync()
            return cursor.fetchall()

    @contextmanager
    def _explain_errors(self, connection: psycopg.Connection[Any]) -> Iterator[None]:
        """Limit the time that a call waits for the server, and explain its error."""
        try:
            with self.connections.time_limited(connection):
                yield
        except psycopg.Error as error:
            self._local.broken = True  # a caller that catches the error must not commit the rest
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.InvalidSqlStatementName):
                connection.close()  # a new one goes to the present primary, and has no prepared statements
            raise explained(error, self.connections.address) from error

    # -- ids and time

    def reserve(self, table: str) -> int:
        """Return a row id that no other process gets; a process takes `ID_BLOCK` at a time."""
        while True:
            with self._ids_lock:
                number, end = self._ids.get(table, (0, 0))
                if number < end:
                    self._ids[table] = (number + 1, end)
                    return number
            # Outside of the lock: the reply comes after all that this transaction has sent.
            block = self._scalar(f"SELECT nextval('{table}_blocks')") * ID_BLOCK
            with self._ids_lock:
                self._ids[table] = (block, block + ID_BLOCK)

    def server_time(self) -> tuple[float, float, float]:
        """Return the server's time, between two times of this process's monotonic clock."""
        with self.connections.use() as connection:
            before = time.monotonic()
            found = self._fetch(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
            return before, float(found[0][0]), time.monotonic()

    def _scalar(self, text: str) -> Any:
        if (connection := self._current()) is not None:
            return self._fetch(connection, text)[0][0]
        with self.connections.use() as connection:
            return self._fetch(connection, text)[0][0]


def _number(name: str) -> int:
    """Return the number of an advisory lock for a name."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)
