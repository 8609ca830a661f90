"""Connections to a schema of a PostgreSQL server: opened when needed, reused, closed when the server is silent.

Not psycopg_pool: its background threads open connections, so that a caller gets `PoolTimeout` after the whole
timeout instead of the server's error at once, and its check of an idle connection takes a round trip.
"""

from __future__ import annotations

import hashlib
import os
import re
import select
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import psycopg
from psycopg import RawCursor, errors
from psycopg.types.json import set_json_loads
from pydantic_core import from_json

from onward.ledger.named_statements import load_scripts
from onward.ledger.postgres.error_messages import explained
from onward.ledger.store_errors import StoreError, StoreUnavailable
from onward.retry import redact

LEAST_VERSION = 130000
SCHEMA_VERSION = 11
OLDEST_COMPATIBLE_VERSION = 11  # The oldest schema version whose workers can go on working with this schema
SCHEMA = "onward"
MAX_CONNECTIONS = 8  # At the same time, of a process; a further caller waits. A server has about a hundred for all
MAX_IDLE_SECONDS = 300.0  # A connection that was idle for longer is closed
LOCK_SECONDS = 10
IDLE_SECONDS = 60
_TCP = {
    "connect_timeout": "10",
    "keepalives": "1",
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "20000",
}
_SESSION = {
    # A process that disappears during a transaction must not hold its locks for long.
    "idle_in_transaction_session_timeout": f"{IDLE_SECONDS}s",
    "tcp_keepalives_idle": "10",
    "tcp_keepalives_interval": "5",
    "tcp_keepalives_count": "3",
    "tcp_user_timeout": "60s",
    # A statement whose caller is gone must not hold its locks.
    "statement_timeout": f"{IDLE_SECONDS + 10}s",
    "lock_timeout": f"{LOCK_SECONDS}s",
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
    """A pool of connections. A caller opens a missing connection itself, and so gets the error itself."""

    def __init__(self, url: str, *, patience: float) -> None:
        self.schema, self._conninfo = _read_url(url)
        self.address = redact(url)
        self._patience = patience
        self._idle: list[tuple[Connection, float]] = []
        self._free = threading.Semaphore(MAX_CONNECTIONS)
        self._lock = threading.Lock()
        self._busy: dict[Connection, float] = {}  # Since when each connection has been waiting for the server
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

    def open(self) -> Connection:
        """Open a new connection and set its session up."""
        try:
            connection: Connection = psycopg.connect(self._conninfo, autocommit=True, cursor_factory=RawCursor)
        except (psycopg.Error, UnicodeError) as error:
            raise explained(error, self.address, opening=not self._opened) from None
        try:
            if connection.info.server_version < LEAST_VERSION:
                found, least = connection.info.server_version // 10000, LEAST_VERSION // 10000
                raise StoreError(
                    f"{self.address} is PostgreSQL {found}; Onward needs version {least} or newer. Upgrade it"
                )
            connection.prepare_threshold = 2
            connection.prepared_max = 500
            set_json_loads(from_json, connection)
            settings = ", ".join(f"set_config('{name}', '{value}', false)" for name, value in _SESSION.items())
            query = f"SELECT {settings}, set_config('search_path', $1, false)"
            with self.time_limited(connection):
                connection.execute(query, [quoted(self.schema)])
        except (psycopg.Error, StoreError) as error:
            connection.close()
            raise explained(error, self.address) from None
        self._opened = True
        return connection

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

    def _close_overdue(self) -> None:
        while not self._closed.wait(min(1.0, self._patience / 4)):
            overdue = time.monotonic() - self._patience
            for connection in [connection for connection, since in list(self._busy.items()) if since < overdue]:
                self._busy.pop(connection, None)
                # Shut down, not closed: the thread that waits on it then gets an error.
                with suppress(psycopg.Error, OSError), socket.socket(fileno=os.dup(connection.fileno())) as wire:
                    wire.shutdown(socket.SHUT_RDWR)


def _is_open(connection: Connection) -> bool:
    """Return whether an idle connection is still open: the only thing it could receive is its end."""
    if connection.closed:
        return False
    poll = select.poll()
    poll.register(connection.fileno(), select.POLLIN)
    return not poll.poll(0)


def lock_number(name: str) -> int:
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=8).digest(), signed=True)


def quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _read_url(url: str) -> tuple[str, str]:
    """Return the schema that a URL names, and the connection string for the driver.

    Errors are found here, because the driver's message would contain the password.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        parts = None
    # If a password has an unquoted reserved character, its rest is in another part.
    if parts is None or parts.netloc.count("@") > 1 or parts.fragment or "@" in parts.path + parts.query:
        raise StoreError(
            "the store's URL cannot be read. It is written postgresql://user@host:5432/name, with a password "
            "after the user and a colon; in a user or a password, / is written %2F, ? %3F, # %23, @ %40, "
            "[ %5B and % %25"
        )
    if re.search(r"%(?![0-9a-fA-F]{2})|%00", url):
        raise StoreError(
            "the store's URL has a % without two hexadecimal digits; a % in a user or a password is written %25"
        )
    options = dict(parse_qsl(parts.query, keep_blank_values=True))
    schema = options.pop("schema", SCHEMA)
    reserved = schema.startswith("pg_") or schema == "information_schema"
    if not schema or "\x00" in schema or len(schema.encode()) > 63 or reserved:
        raise StoreError(
            f"the schema {schema!r:.80} in the store's URL cannot be; name a schema for Onward's tables, of up to "
            "63 bytes, as in postgresql://host/name?schema=onward"
        )
    if "," in parts.netloc:
        # Of several hosts, the primary, which is another host after a failover.
        options.setdefault("target_session_attrs", "read-write")
    options = {**_TCP, "application_name": "onward", **options}
    return schema, f"postgresql://{parts.netloc}{parts.path}?{urlencode(options)}"


def open_schema(url: str, patience: float) -> Connections:
    """Return connections to a schema. Its tables are created or upgraded, unless another process has done so."""
    connections = Connections(url, patience=patience)
    try:
        _upgrade(connections)
    except BaseException:
        connections.close()
        raise
    return connections


def _upgrade(connections: Connections) -> None:
    with connections.use() as connection:
        try:
            if _schema_version(connection, connections) == SCHEMA_VERSION:
                return
            with connection.transaction():
                # Held until the commit: a second process then finds nothing to do.
                connection.execute("SET LOCAL statement_timeout = 0; SET LOCAL lock_timeout = '5min'")
                lock = lock_number(f"{connections.schema}/migrate")
                connection.execute("SELECT pg_advisory_xact_lock($1)", [lock])
                _migrate(connection, connections)
        except (errors.DuplicateTable, errors.DuplicateObject, errors.UndefinedColumn) as error:
            raise StoreError(
                f"{connections.address}: the schema {connections.schema!r} has other tables "
                f"({error.diag.message_primary}). Name one of its own for Onward, as in ?schema=onward"
            ) from error
        except psycopg.Error as error:
            raise explained(error, connections.address) from error


def _migrate(connection: Connection, connections: Connections) -> None:
    found = _schema_version(connection, connections)
    if found == 0:
        # Only if it is missing: creating it needs a right that its owner may not have.
        query = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
        if not connection.execute(query, [connections.schema]).fetchone():
            connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(connections.schema)}".encode())
    for script in load_scripts(__package__, "migrations")[found:]:
        connection.execute(script.encode())
    connection.execute("DELETE FROM schema_version")
    connection.execute(
        "INSERT INTO schema_version (version, serves) VALUES ($1, $2)", [SCHEMA_VERSION, OLDEST_COMPATIBLE_VERSION]
    )


def _schema_version(connection: Connection, connections: Connections) -> int:
    """Return the schema's version; 0: there is none. A newer version that is compatible counts as ours."""
    query = "SELECT 1 FROM pg_tables WHERE schemaname = $1 AND tablename = 'schema_version'"
    if not connection.execute(query, [connections.schema]).fetchone():
        return 0
    found = connection.execute("SELECT version, serves FROM schema_version").fetchone()
    version, serves = found or (0, 0)
    if version <= SCHEMA_VERSION:
        return int(version)
    if serves <= SCHEMA_VERSION:
        return SCHEMA_VERSION  # upgraded by a newer worker, and compatible with this one
    raise StoreError(
        f"{connections.address} has schema version {version}, written by a newer Onward; this one knows version "
        f"{SCHEMA_VERSION}. Upgrade: pip install --upgrade onward"
    )
