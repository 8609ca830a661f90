"""The PostgreSQL dialect: transactions, locks, named statements, time and wake-ups of one schema."""

from __future__ import annotations

import hashlib
import os
import select
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any

import psycopg

from onward.ledger.dialect import Bus
from onward.ledger.postgres.connections import LOCK_SECONDS, Connection, gate_number, lock_number, quoted
from onward.ledger.postgres.replica import PRIMARY_POSITION, Replica
from onward.ledger.postgres.schema_upgrade import OUTDATED, open_schema
from onward.ledger.postgres.statements import array, statement
from onward.ledger.replica_reads import current_reads
from onward.ledger.store_errors import StoreConflict, StoreError, StoreFull, StoreUnavailable
from onward.model.clock import Clock
from onward.retry import redact

ID_BLOCK = 1024  # Row ids that a process takes from a sequence at a time
REFRESH_SECONDS = 15.0  # After this time the server is asked for its time again
MAX_LATENCY_SECONDS = 1.0  # A reply about the time that took longer is not accurate enough
NOTIFY_SECONDS = 5.0  # How long a process that ends waits for its last notification
RETURNED = b"returned"  # The payload of a notification about rows that were due before


class PostgresDatabase:
    """A schema of a PostgreSQL database. Each transaction has a connection of its own, as has each read."""

    remote = True
    keeps_old_rows = True
    kind = "postgresql"
    file: str | None = None

    def __init__(self, url: str, *, patience: float = 60.0, replica: str | None = None) -> None:
        self.connections = open_schema(url, patience)
        self.schema = self.connections.schema
        self.replica = Replica(replica, self.schema, self._log_position) if replica else None
        self._local = threading.local()
        self._ids: dict[str, tuple[int, int]] = {}
        self._ids_lock = threading.Lock()
        self._gate = gate_number(self.schema)
        # After the gate, which a migration holds: from its commit on, a worker that is too old writes nothing.
        begin = ("BEGIN", self.connections.local_settings) if self.connections.pooled else ("BEGIN",)
        self._begin_shared = (*begin, f"SELECT pg_advisory_xact_lock_shared({self._gate})", OUTDATED)
        # While a transaction waits for the gate, all others wait behind it: so it waits briefly, and is repeated.
        self._begin_alone = (
            *begin,
            "SET LOCAL lock_timeout = '1s'",
            f"SELECT pg_advisory_xact_lock({self._gate})",
            f"SET LOCAL lock_timeout = '{LOCK_SECONDS}s'",
            OUTDATED,
        )
        self.channel = f"onward_{self._gate & 0xFFFFFFFF:08x}"
        # The migration of the table `incoming` has a trigger that notifies by this name.
        self.incoming_channel = f"onward_incoming_{hashlib.md5(self.schema.encode()).hexdigest()[:8]}"
        self.incoming_table = f"{quoted(self.schema)}.incoming"
        self.returned = self.incoming = 0
        self._notifier = Notifier(self)

    def clock(self) -> Clock:
        return ServerClock(self)

    def exact_time(self) -> float:
        return float(self._fetch("SELECT extract(epoch FROM clock_timestamp())::float8")[0][0])

    def bus(self) -> Bus:
        return ListeningBus(self)

    def close(self) -> None:
        self._notifier.close()
        self.connections.close()
        if self.replica is not None:
            self.replica.close()

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
            watched = self._local.watched
        if any(woken for woken, _ in watched):
            returned = any(returned for _, returned in watched)
            self.returned += returned
            self._notifier.notify(returned=returned)
        if self.replica is not None:
            self.replica.after_commit()

    @contextmanager
    def _pipeline(self, connection: Connection) -> Iterator[None]:
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

    def _commit(self, connection: Connection) -> None:
        try:
            if self._execute(connection, "COMMIT").statusmessage != "COMMIT":
                raise StoreConflict("a statement failed without an error: nothing was written")
        except (StoreConflict, StoreFull):
            raise
        except StoreError as error:
            # Whatever the error: it is unknown whether the commit was made.
            raise StoreUnavailable(str(error)) from error

    def _roll_back(self, connection: Connection) -> None:
        try:
            if not connection.closed:
                with self.connections.time_limited(connection):
                    # Not by execute(): statements whose preparation was rolled back must be forgotten, too.
                    connection.rollback()
        except psycopg.Error:
            connection.close()

    def in_transaction(self) -> bool:
        return self._current() is not None

    def _current(self) -> Connection | None:
        return getattr(self._local, "connection", None)

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        numbers = sorted({lock_number(f"{self.schema}/{kind}/{name}") for name in names})
        query = "SELECT pg_advisory_xact_lock(n) FROM unnest($1::bigint[]) n"
        self._execute(self._here(), query, [array(numbers)])
        return True

    def notify_on_commit(self, woken: set[str], returned: set[str]) -> None:
        if self.in_transaction():
            self._local.watched.append((woken, returned))

    # -- statements

    def read(self, name: str, *parameters: Any) -> Any:
        """Return the result of a named query; in a transaction, lock the rows of its `{lock …}`."""
        return self._read(name, parameters, lock=self.in_transaction())

    def read_unlocked(self, name: str, *parameters: Any) -> Any:
        return self._read(name, parameters, lock=False)

    def _read(self, name: str, parameters: Sequence[Any], *, lock: bool) -> Any:
        query = statement(name)
        rows = self._fetch(query.text(lock=lock), query.values(parameters))
        match query.shape:
            case "rows":
                return rows
            case "column":
                return [row[0] for row in rows]
            case "row":
                return list(rows[0]) if rows else None
            case _:
                return rows[0][0] if rows else None

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """Return the rows of a named query, with bytes as bytes, not as text."""
        query = statement(name)
        return self._fetch(query.text(lock=self.in_transaction()), query.values(parameters), binary=True)

    def run(self, name: str, *parameters: Any) -> int:
        cursor = self._send(name, parameters)
        # Wait until everything that was sent is done, and raise what failed.
        with self._explain_errors(self._here()):
            self._local.pipeline.sync()
        return cursor.rowcount

    def send(self, name: str, *parameters: Any) -> None:
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
        columns = [list(rows)] if query.as_json else list(zip(*rows, strict=True))
        self._execute(self._here(), *query.spread(columns))

    def _here(self) -> Connection:
        connection = self._current()
        assert connection is not None, "changes are made in a transaction"
        return connection

    def _execute(
        self, connection: Connection, text: str, values: Sequence[Any] | None = None, *, binary: bool = False
    ) -> psycopg.Cursor[Any]:
        with self._explain_errors(connection):
            return connection.execute(text.encode(), values, binary=binary)

    def _fetch(
        self, text: str, values: Sequence[Any] | None = None, *, binary: bool = False
    ) -> list[tuple[Any, ...]]:
        connection = self._current()
        if connection is None:
            if self.replica is not None and (reads := current_reads()) is not None:
                rows = self.replica.fetch(reads, text.encode(), values, binary=binary)
                if rows is not None:
                    return rows
            with self.connections.use() as connection, self._explain_errors(connection):
                return self.connections.execute(connection, text.encode(), values, binary=binary).fetchall()
        with self._explain_errors(connection):
            cursor = connection.execute(text.encode(), values, binary=binary)
            # Fetching would do, but the server counts idle time in a transaction only after a sync.
            self._local.pipeline.sync()
            return cursor.fetchall()

    @contextmanager
    def _explain_errors(self, connection: Connection) -> Iterator[None]:
        """Limit the time that a call waits for the server, and explain its error."""
        try:
            with self.connections.time_limited(connection):
                yield
        except psycopg.Error as error:
            self._local.broken = True  # a caller that catches the error must not commit the rest
            if isinstance(error, psycopg.errors.ReadOnlySqlTransaction | psycopg.errors.InvalidSqlStatementName):
                connection.close()  # a new one goes to the present primary, and has no prepared statements
            raise self.connections.explained(connection, error) from error

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
            block = self._fetch(f"SELECT nextval('{table}_blocks')")[0][0] * ID_BLOCK
            with self._ids_lock:
                self._ids[table] = (block, block + ID_BLOCK)

    def _log_position(self) -> int:
        """Return how far the primary's log is."""
        with self.connections.use() as connection:
            ((position,),) = self._execute(connection, PRIMARY_POSITION).fetchall()
        return int(position)

    def server_time(self) -> tuple[float, float, float]:
        """Return the server's time, between two times of this process's monotonic clock."""
        with self.connections.use() as connection:
            before = time.monotonic()
            cursor = self._execute(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
            ((found,),) = cursor.fetchall()
            return before, float(found), time.monotonic()


class ServerClock:
    """The server's time, so that all machines agree: this machine's monotonic clock and an offset, refreshed."""

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


class Notifier:
    """Wakes workers in other processes after commits, in a thread of its own.

    Transactions that notify wait for each other, and a commit should wait for none of them. What is committed
    while a notification is under way shares the next one. If one is lost, workers poll the ledger before long.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._lock = threading.Condition()
        self._pending = self._returned = self._closed = False
        self._thread: threading.Thread | None = None

    def notify(self, *, returned: bool) -> None:
        """Wake the workers soon; `returned`: rows that were due before have returned to the queue."""
        with self._lock:
            if self._closed:
                return
            self._pending, self._returned = True, self._returned or returned
            if self._thread is None:
                self._thread = threading.Thread(target=self._run, name="onward-notify", daemon=True)
                self._thread.start()
            self._lock.notify_all()

    def close(self) -> None:
        """Send what is pending, and end."""
        with self._lock:
            self._closed = True
            self._lock.notify_all()
        if self._thread is not None:
            self._thread.join(NOTIFY_SECONDS)

    def _run(self) -> None:
        while True:
            with self._lock:
                while not self._pending and not self._closed:
                    self._lock.wait()
                if not self._pending:
                    return
                payload = f", '{RETURNED.decode()}'" if self._returned else ""
                self._pending = self._returned = False
            with suppress(StoreError, psycopg.Error), self._database.connections.use() as connection:
                self._send(connection, f"NOTIFY {self._database.channel}{payload}")

    def _send(self, connection: Connection, statement: str) -> None:
        # Not synced to disk: it is a hint, and the others wait until it is committed.
        steps = f"BEGIN; SET LOCAL synchronous_commit = off; {statement}; COMMIT"
        try:
            with self._database.connections.time_limited(connection):
                connection.execute(steps.encode(), prepare=False)
        except psycopg.Error:
            connection.close()


class ListeningBus:
    """Listens on a connection of its own; without one, workers poll the ledger.

    Behind a pooler in transaction mode nobody can listen, except around it.
    """

    def __init__(self, database: PostgresDatabase) -> None:
        self._database = database
        self._connection: Connection | None = None
        self._read_end, self._write_end = os.pipe()
        for end in (self._read_end, self._write_end):
            os.set_blocking(end, False)
        self._closed = False
        self._lock = threading.Lock()

    def wait(self, seconds: float) -> bool:
        ends = time.monotonic() + seconds
        try:
            while not self._closed and (left := ends - time.monotonic()) > 0:
                if self._connection is None and self._database.connections.has_sessions:
                    self._connection = self._database.connections.open(direct=True)
                    for channel in (self._database.channel, self._database.incoming_channel):
                        self._connection.execute(f"LISTEN {channel}".encode())
                listening = [] if self._connection is None else [self._connection.fileno()]
                readable, _, _ = select.select([*listening, self._read_end], [], [], left)
                if self._read_end in readable:
                    with suppress(BlockingIOError):
                        os.read(self._read_end, 4096)
                    return True
                if readable and self._connection is not None:
                    self._connection.pgconn.consume_input()
                    if found := list(iter(self._connection.pgconn.notifies, None)):
                        self._database.returned += any(one.extra == RETURNED for one in found)
                        incoming = self._database.incoming_channel.encode()
                        self._database.incoming += any(one.relname == incoming for one in found)
                        return True
        except (psycopg.Error, OSError, ValueError) as error:
            self._drop()
            raise StoreUnavailable(f"{self._database.connections.address}: {redact(str(error))}") from error
        finally:
            if self._closed:
                self._drop()
        return False

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
