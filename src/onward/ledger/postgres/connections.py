"""Connections to a schema of a PostgreSQL server: opened when needed, reused, closed when the server is silent.

Not psycopg_pool: its background threads open connections, so that a caller gets `PoolTimeout` after the whole
timeout instead of the server's error at once, and its check of an idle connection takes a round trip.
"""

from __future__ import annotations

import hashlib
import os
import select
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from weakref import WeakSet

import psycopg
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from onward.ledger.postgres.error_messages import explained
from onward.ledger.postgres.failover import Hosts
from onward.ledger.postgres.store_url import read_url
from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.retry import redact

LEAST_VERSION = 130000
SCHEMA_VERSION = 20
OLDEST_COMPATIBLE_VERSION = 11  # The oldest schema version whose workers can go on working with this schema
MAX_CONNECTIONS = 8  # At the same time, of a process; a further caller waits. A server has about a hundred for all
MAX_IDLE_SECONDS = 300.0  # A connection that was idle for longer is closed
LOCK_SECONDS = 10
# More than a caller waits for the server (`patience`), whose result is then unknown. A COMMIT that waits for a
# synchronous standby, and is cancelled by the server, would be reported as done.
STATEMENT_SECONDS = 70
IDLE_SECONDS = 60  # Of a transaction between two statements: a process that is gone must not hold its locks
CLIENT_CHECK_SECONDS = 10  # How often the server checks, during a statement, whether its client is still there
_TCP_SETTINGS = {
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60s",
}
_PLANNER_SETTINGS = {
    "jit": "off",
    # Every statement has its index. A table that has just been filled has no statistics that would say so.
    "enable_seqscan": "off",
    "enable_hashjoin": "off",
    "enable_mergejoin": "off",
    "plan_cache_mode": "force_generic_plan",
    "standard_conforming_strings": "on",
    "timezone": "UTC",
}

Connection = psycopg.Connection[Any]


class Connections:
    """A pool of connections. A caller opens a missing connection itself, and so gets the error itself.

    Behind a pooler in transaction mode (PgBouncer), two transactions of a connection may be on two connections of
    the server. Then nothing is prepared and nothing is set for a session: every statement is in a transaction,
    which begins with `local_settings`.
    """

    def __init__(self, url: str, *, patience: float, replica_of: str | None = None) -> None:
        """With `replica_of`, connect to a standby, for reading the schema of that name."""
        found = read_url(url, standby=replica_of is not None)
        self.schema = replica_of or found.schema
        self._read_only = replica_of is not None
        self._hosts = Hosts(found.conninfo, redact(url), compared=not self._read_only)
        self._direct = Hosts(found.direct, redact(url)) if found.direct else None
        self._pooled = found.pooler == "transaction" if found.pooler else None  # None: it is not known yet
        self._settings = _settings(self.schema, read_only=self._read_only)
        self.local_settings = _set_all(self._settings, local=True)
        self.address = redact(url)
        self._patience = patience
        self._idle: list[tuple[Connection, float]] = []
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._busy: dict[Connection, float] = {}  # Since when each connection has been waiting for the server
        self._given_up: WeakSet[Connection] = WeakSet()
        self._opened = False
        self._closed = threading.Event()
        self._watcher: threading.Thread | None = None
        self._pid = os.getpid()

    def close(self) -> None:
        self._closed.set()
        self._close_idle()

    def _close_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection, _ in idle:
            connection.close()

    @contextmanager
    def use(self) -> Iterator[Connection]:
        """Lend a connection for the duration of the block."""
        if not self._free.acquire(timeout=self._patience):
            raise StoreUnavailable(
                f"all {MAX_CONNECTIONS} connections of this process to {self.address} were busy for "
                f"{self._patience:g} s"
            )
        try:
            connection = self._take()
            try:
                yield connection
            finally:
                self._give_back(connection)
        finally:
            self._free.release()

    def _take(self) -> Connection:
        if os.getpid() != self._pid:
            raise StoreError("a store that was opened before a fork cannot be used after it; open it again")
        now = time.monotonic()
        with self._lock:
            while self._idle:
                connection, since = self._idle.pop()
                if now - since < MAX_IDLE_SECONDS and _is_open(connection):
                    return connection
                connection.close()
        return self.open()

    def _give_back(self, connection: Connection) -> None:
        idle = psycopg.pq.TransactionStatus.IDLE
        if connection.closed or connection.info.transaction_status != idle or self._closed.is_set():
            if connection.closed:
                self._close_idle()  # the server was restarted: idle connections are lost, too
            connection.close()
            return
        now = time.monotonic()
        with self._lock:
            self._idle.append((connection, now))
            # The connection used last is taken first: those at the front are not needed any more.
            while self._idle and now - self._idle[0][1] > MAX_IDLE_SECONDS:
                self._idle.pop(0)[0].close()

    @property
    def pooled(self) -> bool:
        """Whether a pooler in transaction mode is in between; known from the first connection on."""
        return bool(self._pooled)

    @property
    def has_sessions(self) -> bool:
        """Whether `open(direct=True)` returns a connection that keeps its settings, and can listen."""
        return not self.pooled or bool(self._direct)

    def open(self, *, direct: bool = False) -> Connection:
        """Open a new connection and set its session up; with `direct`, around the pooler if its URL says how."""
        try:
            connection = (self._direct if direct and self._direct else self._hosts).connect()
        except (psycopg.Error, UnicodeError) as error:
            raise explained(error, self.address, opening=not self._opened) from None
        try:
            if connection.info.server_version < LEAST_VERSION:
                found, least = connection.info.server_version // 10000, LEAST_VERSION // 10000
                raise StoreError(
                    f"{self.address} is PostgreSQL {found}; Onward needs version {least} or newer. Upgrade it"
                )
            set_json_loads(from_json, connection)
            with self.time_limited(connection):
                if direct and self._direct:
                    self._set_session_up(connection)
                    return connection
                if self._pooled is None:
                    self._pooled = _is_pooled(connection)
                if self._pooled:
                    connection.prepare_threshold = None
                else:
                    self._set_session_up(connection)
        except (psycopg.Error, StoreError) as error:
            connection.close()
            raise explained(error, self.address) from None
        self._opened = True
        return connection

    def _set_session_up(self, connection: Connection) -> None:
        connection.prepare_threshold = 2
        connection.prepared_max = 500
        connection.execute(_set_all({**_TCP_SETTINGS, **self._settings}).encode())

    @contextmanager
    def transaction(self, connection: Connection) -> Iterator[None]:
        """Make a block one transaction with the usual settings."""
        with connection.transaction():
            if self.pooled:
                connection.execute(self.local_settings.encode())
            yield

    def execute(
        self, connection: Connection, text: bytes, values: Sequence[Any] | None = None, *, binary: bool = False
    ) -> psycopg.Cursor[Any]:
        """Execute one statement, which is a transaction of its own, in one round trip."""
        if not self.pooled:
            return connection.execute(text, values, binary=binary)
        with connection.pipeline():  # what is sent together is one transaction
            connection.execute(self.local_settings.encode())
            return connection.execute(text, values, binary=binary)

    @contextmanager
    def time_limited(self, connection: Connection) -> Iterator[None]:
        """Limit the wait for the server: a network that drops all packets reports no error."""
        if self._watcher is None:
            with self._lock:
                if self._watcher is None:
                    watcher = threading.Thread(target=self._close_overdue, name="onward-postgres", daemon=True)
                    self._watcher = watcher
                    watcher.start()
        self._busy[connection] = time.monotonic()
        try:
            yield
        finally:
            self._busy.pop(connection, None)

    def explained(self, connection: Connection, error: psycopg.Error) -> Exception:
        """Return an error of a connection as one of the store's."""
        if connection in self._given_up:
            return StoreUnavailable(
                f"{self.address} did not reply within {self._patience:g} s. It is overloaded or unreachable, or "
                "waits for a synchronous standby; what it was asked to do is repeated, unless it was done"
            )
        return explained(error, self.address)

    def _close_overdue(self) -> None:
        while not self._closed.wait(min(1.0, self._patience / 4)):
            overdue = time.monotonic() - self._patience
            for connection in [connection for connection, since in list(self._busy.items()) if since < overdue]:
                self._busy.pop(connection, None)
                self._given_up.add(connection)
                # Shut down, not closed: the thread that waits on it then gets an error.
                with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
                    wire.shutdown(socket.SHUT_RDWR)


def _settings(schema: str, *, read_only: bool) -> dict[str, str]:
    return {
        **({"default_transaction_read_only": "on", "transaction_read_only": "on"} if read_only else {}),
        "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
        "statement_timeout": f"{STATEMENT_SECONDS}s",
        "lock_timeout": f"{LOCK_SECONDS}s",
        **_PLANNER_SETTINGS,
        "search_path": quoted(schema),
    }


def _set_all(settings: Mapping[str, str], *, local: bool = False) -> str:
    """Return a statement that makes settings, for the session or for the transaction."""
    last = str(local).lower()
    literals = {name: value.replace("'", "''") for name, value in settings.items()}
    steps = [f"set_config('{name}', '{literal}', {last})" for name, literal in literals.items()]
    # Older servers, and those on some other systems, cannot check.
    check = f"set_config('client_connection_check_interval', '{CLIENT_CHECK_SECONDS}s', {last})"
    able = "current_setting('server_version_num')::integer >= 140000 AND version() ~ 'linux'"
    return f"SELECT {', '.join(steps)}, CASE WHEN {able} THEN {check} END"


def _is_open(connection: Connection) -> bool:
    """Return whether an idle connection is still open: the only thing it could receive is its end."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def _is_pooled(connection: Connection) -> bool:
    """Return whether a pooler is in between: then the server's process is not the one that has greeted us.

    Whether it pools sessions or transactions cannot be seen. Transactions are assumed: that works for both.
    """
    found = connection.execute("SELECT pg_backend_pid()").fetchone()
    return found != (connection.info.backend_pid,)


def lock_number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)


def gate_number(schema: str) -> int:
    """Return the number of the lock that every transaction holds, shared."""
    return lock_number(f"{schema}/gate")


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
