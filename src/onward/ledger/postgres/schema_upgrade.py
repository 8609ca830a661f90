"""Creating and upgrading the tables of a schema: by one process at a time, again after a crash, beside workers.

Migrations are numbered files. They run in one transaction, alone: it waits at most `LOCK_SECONDS` for each lock,
so that workers do not queue up behind it, and is repeated if it does not get one. A file that begins with
`-- online` creates and drops indexes of tables that may be large. It has only statements of these two kinds, each
of which is executed outside of a transaction, while workers go on:

    -- online
    CREATE INDEX CONCURRENTLY name ON table (…);
    DROP INDEX CONCURRENTLY name;

The version is stored after each transaction and after each such file. So a process that is killed leaves at most a
half-made index, which the next process drops and makes again.
"""

from __future__ import annotations

import logging
import random
import re
import time
from collections.abc import Sequence

import psycopg
from psycopg import errors

from onward.ledger.named_statements import load_scripts
from onward.ledger.postgres.connections import (
    OLDEST_COMPATIBLE_VERSION,
    SCHEMA_VERSION,
    Connection,
    Connections,
    gate_number,
    lock_number,
    quoted,
)
from onward.ledger.postgres.error_messages import OUTDATED_MARK, explained
from onward.ledger.store_errors import StoreError, StoreUnavailable

log = logging.getLogger("onward")

LOCK_SECONDS = 2  # How long a migration waits for a lock; meanwhile, transactions that come later wait behind it
MAX_WAIT_SECONDS = 600.0  # For locks, or for another process that upgrades the tables
STATEMENT_SECONDS = 3600  # The time limit of a statement in a migration, which may write every row of a table
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.05, 2.0
OTHER_PROCESS = "another process is upgrading them"
ONLINE = "-- online\n"
_CREATE_INDEX = re.compile(r"CREATE (UNIQUE )?INDEX CONCURRENTLY (\w+) ON (\w+)\b(.*)", re.DOTALL)
_DROP_INDEX = re.compile(r"DROP INDEX CONCURRENTLY (\w+)")
_FIND_INDEX = """
SELECT indisvalid AND indisready FROM pg_index JOIN pg_class ON pg_class.oid = indexrelid
JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relname = $2"""

# Fails if the tables need a newer Onward than this one. The reading is cheap: the table has one row.
OUTDATED = (
    f"SELECT CASE WHEN serves > {SCHEMA_VERSION} THEN ('{OUTDATED_MARK}' || version)::integer END "
    "FROM schema_version"
)


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
    waits = _Waits(connections)
    try:
        with connections.use() as connection:
            while (found := current_version(connection, connections)) < SCHEMA_VERSION:
                problem = _take_step(connection, connections, found)
                if problem:
                    waits.pause(problem)
    except (errors.DuplicateTable, errors.DuplicateObject, errors.UndefinedColumn) as error:
        raise StoreError(
            f"{connections.address}: the schema {connections.schema!r} has other tables "
            f"({error.diag.message_primary}). Name one of its own for Onward, as in ?schema=onward"
        ) from error
    except psycopg.Error as error:
        raise explained(error, connections.address) from error


class _Waits:
    """Pauses that grow, up to `MAX_WAIT_SECONDS` in all."""

    def __init__(self, connections: Connections) -> None:
        self._address = connections.address
        self._gives_up = time.monotonic() + MAX_WAIT_SECONDS
        self._pause = FIRST_PAUSE_SECONDS

    def pause(self, reason: str) -> None:
        if time.monotonic() > self._gives_up:
            raise StoreUnavailable(
                f"{self._address}: its tables could not be upgraded for {MAX_WAIT_SECONDS / 60:g} minutes: "
                f"{reason}. `onward doctor` lists transactions that are open for long; end them, or start again "
                "later"
            )
        if self._pause == LONGEST_PAUSE_SECONDS:
            log.info("%s: waiting to upgrade its tables: %s", self._address, reason)
        time.sleep(random.uniform(0.5, 1.0) * self._pause)
        self._pause = min(2 * self._pause, LONGEST_PAUSE_SECONDS)


def _take_step(connection: Connection, connections: Connections, found: int) -> str:
    """Run the next migrations: one that is online, or all up to the next one that is, in one transaction.

    Return why that was not possible now; empty: it was.
    """
    scripts = _migrations()
    if found == 0:
        scripts = [text.replace(" CONCURRENTLY ", " ") for text in scripts]  # the tables are empty
    elif scripts[found].startswith(ONLINE):
        return _run_online(connection, connections, found, scripts[found])
    else:
        online = [number for number in range(found, len(scripts)) if scripts[number].startswith(ONLINE)]
        scripts = scripts[: min(online, default=len(scripts))]
    try:
        return _run_in_transaction(connection, connections, found, scripts)
    except (errors.LockNotAvailable, errors.DeadlockDetected):
        return "transactions of other programs have locked them"


def _run_in_transaction(
    connection: Connection, connections: Connections, found: int, scripts: Sequence[str]
) -> str:
    with connections.transaction(connection):
        limits = (
            f"SET LOCAL statement_timeout = '{STATEMENT_SECONDS}s'; SET LOCAL lock_timeout = '{LOCK_SECONDS}s'"
        )
        connection.execute(limits.encode())
        if not _may_upgrade(connection, connections):
            return OTHER_PROCESS
        # No other transaction of Onward runs now, and those that come later find the new version.
        connection.execute("SELECT pg_advisory_xact_lock($1)", [gate_number(connections.schema)])
        if _schema_version(connection, connections) != found:
            return ""
        if found == 0:
            # Only if it is missing: creating it needs a right that its owner may not have.
            query = "SELECT 1 FROM pg_namespace WHERE nspname = $1"
            if not connection.execute(query, [connections.schema]).fetchone():
                connection.execute(f"CREATE SCHEMA IF NOT EXISTS {quoted(connections.schema)}".encode())
        else:
            log.info("%s: upgrading its tables from version %d to %d", connections.address, found, len(scripts))
        for script in scripts[found:]:
            connection.execute(script.encode())
        _store_version(connection, len(scripts))
    return ""


def _may_upgrade(connection: Connection, connections: Connections) -> bool:
    """Take the lock of whoever upgrades the tables, until the transaction ends; return False if another has it.

    Nobody waits for the lock in a statement: that would hold a snapshot, and `CREATE INDEX CONCURRENTLY` of the
    process that has the lock would wait for it, for ever.
    """
    number = lock_number(f"{connections.schema}/migrate")
    return connection.execute("SELECT pg_try_advisory_xact_lock($1)", [number]).fetchone() == (True,)


def _run_online(connection: Connection, connections: Connections, found: int, script: str) -> str:
    """Run an online migration, on a connection of its own; this one's transaction only holds the lock."""
    with connections.transaction(connection):
        if not _may_upgrade(connection, connections):
            return OTHER_PROCESS
        if _schema_version(connection, connections) != found:
            return ""
        # Last, and not prepared: the result of a prepared SELECT holds its snapshot until the next statement, and
        # `CREATE INDEX CONCURRENTLY` would wait for it, for ever.
        connection.execute("SET LOCAL idle_in_transaction_session_timeout = 0", prepare=False)
        log.info("%s: upgrading its indexes to version %d", connections.address, found + 1)
        for text in _statements(script):
            _change_index(connections, text)
        _store_version(connection, found + 1)
    return ""


def _change_index(connections: Connections, text: str) -> None:
    """Create or drop an index while others read and write its table; a half-made one is made again."""
    schema = quoted(connections.schema)
    connection = connections.open(direct=True)
    try:
        if connections.has_sessions:
            # Waiting for old transactions counts as waiting for a lock. Nobody waits behind it.
            connection.execute("SET statement_timeout = 0; SET lock_timeout = 0")
        if drops := _DROP_INDEX.fullmatch(text):
            connection.execute(f"DROP INDEX CONCURRENTLY IF EXISTS {schema}.{drops[1]}".encode())
            return
        creates = _CREATE_INDEX.fullmatch(text)
        assert creates is not None, f"an online migration creates and drops indexes only, not: {text}"
        unique, name, table, rest = creates.groups()
        with connection.transaction():
            # The server may still be making it for a process that was killed: then wait for it.
            connection.execute(f"LOCK TABLE {schema}.{table} IN SHARE UPDATE EXCLUSIVE MODE".encode())
            valid = connection.execute(_FIND_INDEX, [connections.schema, name]).fetchone()
        if valid == (False,):
            connection.execute(f"DROP INDEX CONCURRENTLY {schema}.{name}".encode())
        if valid != (True,):
            create = f"CREATE {unique or ''}INDEX CONCURRENTLY {name} ON {schema}.{table}{rest}"
            connection.execute(create.encode())
    finally:
        connection.close()


def _migrations() -> list[str]:
    return load_scripts(__package__, "migrations")


def _statements(script: str) -> list[str]:
    parts = re.sub(r"--[^\n]*", "", script).split(";")
    return [part.strip() for part in parts if part.strip()]


def _store_version(connection: Connection, version: int) -> None:
    connection.execute("DELETE FROM schema_version")
    connection.execute(
        "INSERT INTO schema_version (version, serves) VALUES ($1, $2)", [version, OLDEST_COMPATIBLE_VERSION]
    )


def current_version(connection: Connection, connections: Connections) -> int:
    """Return the schema's version; 0: there is none. A newer version that is compatible counts as ours."""
    if not connections.pooled:
        return _schema_version(connection, connections)
    with connections.transaction(connection):
        return _schema_version(connection, connections)


def _schema_version(connection: Connection, connections: Connections) -> int:
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
