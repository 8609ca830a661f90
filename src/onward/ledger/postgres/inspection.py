"""Inspecting a PostgreSQL database for `onward doctor`, without creating, migrating or changing anything."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import psycopg
from psycopg import errors

from onward.ledger.named_statements import MissingObject, load_scripts
from onward.ledger.postgres.connections import (
    MAX_CONNECTIONS,
    SCHEMA_VERSION,
    Connection,
    Connections,
    quoted,
)
from onward.ledger.postgres.error_messages import explained
from onward.ledger.postgres.replica import PRIMARY_POSITION, Replica
from onward.ledger.postgres.schema_upgrade import current_version

MAX_QUERY_SECONDS = 20.0  # The time limit of a query about all documents
MAX_PROCESS_CONNECTIONS = MAX_CONNECTIONS + 1  # That a worker process may open: its store's, and one for LISTEN
LONG_TRANSACTION_SECONDS = 600.0
LATENCY_SAMPLES = 5

_SERVER = """
SELECT current_setting('server_version'), pg_is_in_recovery(),
       -- The default for other connections: this transaction is read-only.
       (SELECT reset_val = 'on' FROM pg_settings WHERE name = 'default_transaction_read_only'),
       current_setting('autovacuum') = 'on' AND current_setting('track_counts') = 'on',
       current_user::text, current_database()::text, has_database_privilege(current_database(), 'CREATE')"""
_CLOCK = "SELECT extract(epoch FROM clock_timestamp())::float8"
# A user may not see much of another user's connections, but may count them.
_SLOTS = """
SELECT current_setting('max_connections')::bigint - current_setting('superuser_reserved_connections')::bigint
         - coalesce(current_setting('reserved_connections', true), '0')::bigint,
       (SELECT coalesce(sum(numbackends), 0)::bigint FROM pg_stat_database),
       (SELECT rolconnlimit::bigint FROM pg_roles WHERE rolname = current_user),
       (SELECT datconnlimit::bigint FROM pg_database WHERE datname = current_database())"""
_LONG = """
SELECT pid, coalesce(usename::text, ''), coalesce(application_name, ''), coalesce(state, ''),
       extract(epoch FROM clock_timestamp() - xact_start)::float8
FROM pg_stat_activity
WHERE xact_start < clock_timestamp() - make_interval(secs => $1::float8) AND pid <> pg_backend_pid()
  AND backend_type = 'client backend'
ORDER BY xact_start LIMIT 5"""
_PREPARED = """
SELECT gid, extract(epoch FROM clock_timestamp() - prepared)::float8 FROM pg_prepared_xacts
WHERE prepared < clock_timestamp() - make_interval(secs => $1::float8) ORDER BY prepared LIMIT 5"""
_TABLES = "SELECT tablename::text FROM pg_tables WHERE schemaname = $1"
_LACKING = """
SELECT relname::text, string_agg(wanted, ', ')
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace,
     unnest(CASE relkind WHEN 'S' THEN '{USAGE}' ELSE '{SELECT,INSERT,UPDATE,DELETE}' END::text[]) AS wanted
WHERE nspname = $1 AND relkind IN ('r', 'S')
  AND NOT CASE relkind WHEN 'S' THEN has_sequence_privilege(pg_class.oid, wanted)
                       ELSE has_table_privilege(pg_class.oid, wanted) END
GROUP BY relname ORDER BY relname"""
_SCHEMA = """
SELECT has_schema_privilege(oid, 'USAGE'), has_schema_privilege(oid, 'CREATE')
FROM pg_namespace WHERE nspname = $1"""
_INDEXES = """
SELECT relname::text, indisvalid AND indisready FROM pg_index
JOIN pg_class ON pg_class.oid = indexrelid JOIN pg_namespace ON pg_namespace.oid = relnamespace
WHERE nspname = $1"""
_SIZE = """
SELECT coalesce(sum(pg_total_relation_size(pg_class.oid)), 0)::bigint
FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace WHERE nspname = $1 AND relkind = 'r'"""
_DEAD = """
SELECT relname::text, n_dead_tup FROM pg_stat_user_tables
WHERE schemaname = $1 AND n_dead_tup > 100000 AND n_dead_tup > n_live_tup ORDER BY n_dead_tup DESC LIMIT 3"""
_FUTURE = "SELECT count(*), max(updated_at) FROM documents WHERE updated_at > $1::float8"
_ASTRAY = """
SELECT count(*) FROM documents d
WHERE "row" IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = d."row")"""


@dataclass(slots=True)
class ServerInspection:
    """The result of an inspection. A field is None if it was not checked, or if the check took too long."""

    address: str
    schema_name: str
    server_version: str = ""
    latency: float = 0.0  # Seconds of a round trip, the median of a few
    ahead: float = 0.0  # Seconds by which the server's clock is ahead of this machine's
    encrypted: bool = False
    host: str = ""
    user: str = ""
    database: str = ""
    pooled: bool = False  # Whether a pooler in transaction mode is in between
    listens: bool = True  # Whether workers can be notified of due events
    read_only: str = ""  # Why nothing can be written; empty if it can
    autovacuum: bool = True
    slots: int = 0  # Connections that this user may have at the same time, with all others
    used: int = 0
    may_create: bool = False  # Whether a schema that is missing can be made
    schema: int = 0  # The version of the tables; 0: none. A newer one that serves this Onward counts as its own
    known_schema: int = SCHEMA_VERSION
    size: int = 0
    lacking: list[MissingObject] = field(default_factory=list)
    forbidden: list[tuple[str, str]] = field(default_factory=list)  # Tables, and rights that this user lacks
    may_upgrade: bool = True
    # Transactions that keep vacuum from its work: process, who, for how many seconds.
    long: list[tuple[int, str, float]] = field(default_factory=list)
    prepared: list[tuple[str, float]] = field(default_factory=list)
    bloated: list[tuple[str, int]] = field(default_factory=list)
    future: int | None = None  # Documents that were changed in the future
    latest: float | None = None
    astray: int | None = None  # Documents that point to ledger rows that do not exist

    @property
    def usable(self) -> bool:
        """Whether it can be opened as a store."""
        repairable = all(missing.statement for missing in self.lacking)
        return self.schema == self.known_schema and not self.forbidden and repairable


def exists(url: str) -> bool:
    """Return whether Onward's tables are in the database that a URL names."""
    with _looking(url) as look:
        return ("schema_version",) in look.rows(_TABLES, look.connections.schema)


def read_schema_version(url: str) -> int:
    """Return the version of the tables; 0: there are none. A newer, compatible one counts as this Onward's."""
    with _looking(url) as look:
        return current_version(look.connection, look.connections)


def examine(url: str, *, future: float, seconds: float = MAX_QUERY_SECONDS) -> ServerInspection:
    """Inspect a server and a schema, with a time limit for each query about all documents; raises `StoreError`.

    Documents count as changed in the future if that is more than `future` seconds from now, by the server's clock.
    """
    with _looking(url) as look:
        found = ServerInspection(look.connections.address, look.connections.schema)
        _ask_server(look, found)
        tables = {name for (name,) in look.rows(_TABLES, found.schema_name)}
        if "schema_version" not in tables:
            return found
        usage, found.may_upgrade = look.rows(_SCHEMA, found.schema_name)[0]
        if not usage:
            found.forbidden = [("the schema", "USAGE")]
            return found
        found.forbidden = [(name, rights) for name, rights in look.rows(_LACKING, found.schema_name)]
        if any(name == "schema_version" for name, _ in found.forbidden):
            return found
        version, serves = next(iter(look.rows("SELECT version, serves FROM schema_version")), (0, 0))
        found.schema = SCHEMA_VERSION if serves <= SCHEMA_VERSION < version else version
        if found.schema != SCHEMA_VERSION:
            return found
        found.size = look.rows(_SIZE, found.schema_name)[0][0]
        found.lacking = list(_lacking(look, found.schema_name, tables))
        found.bloated = [(name, dead) for name, dead in look.rows(_DEAD, found.schema_name)]
        if found.usable:
            look.seconds = seconds
            now = look.clock()
            with suppress(errors.QueryCanceled):
                ((found.future, found.latest),) = look.rows(_FUTURE, now + future)
            with suppress(errors.QueryCanceled):
                ((found.astray,),) = look.rows(_ASTRAY)
        return found


def examine_replica(url: str, replica: str) -> tuple[str, float]:
    """Return the address of a replica, and how many seconds it is behind (inf: unknown); raises `StoreError`."""
    with _looking(url) as look:
        found = Replica(replica, look.connections.schema, lambda: int(look.rows(PRIMARY_POSITION)[0][0]))
        try:
            behind = found.position().behind_seconds
            return found.connections.address, behind
        except psycopg.Error as error:
            raise explained(error, found.connections.address) from None
        finally:
            found.close()


class _Look:
    """A connection on which nothing can be written. Each query is a transaction of its own."""

    def __init__(self, connections: Connections, connection: Connection) -> None:
        self.connections, self.connection = connections, connection
        self.seconds: float | None = None  # The time limit of each query

    def rows(self, query: str, *values: Any) -> list[tuple[Any, ...]]:
        with self.connections.transaction(self.connection):
            self.connection.execute("SET TRANSACTION READ ONLY")
            if self.seconds is not None:
                self.connection.execute(f"SET LOCAL statement_timeout = {round(self.seconds * 1000)}".encode())
            return self.connection.execute(query.encode(), values).fetchall()

    def clock(self) -> float:
        """Return the server's time, in one round trip."""
        ((now,),) = self.connection.execute(_CLOCK).fetchall()
        return float(now)


@contextmanager
def _looking(url: str) -> Iterator[_Look]:
    connections = Connections(url, patience=MAX_QUERY_SECONDS + 10)
    try:
        connection = connections.open()
        try:
            yield _Look(connections, connection)
        finally:
            connection.close()
    except psycopg.Error as error:
        raise explained(error, connections.address) from None
    finally:
        connections.close()


def _ask_server(look: _Look, found: ServerInspection) -> None:
    ((version, recovering, read_only, autovacuum, user, database, may_create),) = look.rows(_SERVER)
    found.server_version, found.user, found.database, found.may_create = version, user, database, may_create
    found.autovacuum = autovacuum
    found.pooled, found.listens = look.connections.pooled, look.connections.has_sessions
    if recovering:
        found.read_only = "it is a copy that follows another server"
    elif read_only:
        found.read_only = "default_transaction_read_only is on"
    found.encrypted, found.host = bool(look.connection.pgconn.ssl_in_use), look.connection.info.host
    found.latency, found.ahead = _compare_clocks(look)
    ((most, used, of_user, of_database),) = look.rows(_SLOTS)
    found.slots, found.used = min([most, *(limit for limit in (of_user, of_database) if limit >= 0)]), used
    for pid, who, application, state, age in look.rows(_LONG, LONG_TRANSACTION_SECONDS):
        about = ", ".join(part for part in (who and f"user {who}", application, state) if part)
        found.long.append((pid, about or "of another user", age))
    found.prepared = [(gid, age) for gid, age in look.rows(_PREPARED, LONG_TRANSACTION_SECONDS)]


def _compare_clocks(look: _Look) -> tuple[float, float]:
    """Return the median time of a few queries, and how far the server's clock is ahead by the quickest one."""
    samples = []
    for _ in range(LATENCY_SAMPLES):
        before, began = time.time(), time.monotonic()
        theirs = look.clock()
        took = time.monotonic() - began
        samples.append((took, theirs - (before + took / 2)))
    samples.sort()
    return samples[len(samples) // 2][0], samples[0][1]


def _lacking(look: _Look, schema: str, tables: set[str]) -> Iterator[MissingObject]:
    """Compare the schema with what the migrations make."""
    text = re.sub(r"--[^\n]*", "", "\n".join(load_scripts(__package__, "migrations")))
    dropped = set(re.findall(r"\bDROP (?:TABLE|INDEX)(?: CONCURRENTLY)?(?: IF EXISTS)? (\w+)", text))
    for name in re.findall(r"\bCREATE TABLE (\w+)", text):
        if name not in tables | dropped:
            yield MissingObject(f"the table {name}")
    valid = dict(look.rows(_INDEXES, schema))
    for unique, name, table, rest in re.findall(
        r"\bCREATE (UNIQUE )?INDEX (?:CONCURRENTLY )?(\w+) ON (\w+)([^;]*);", text, flags=re.DOTALL
    ):
        if name in dropped or table not in tables:
            continue
        if name not in valid:
            made = f"CREATE {unique}INDEX CONCURRENTLY {name} ON {quoted(schema)}.{table}{rest}"
            yield MissingObject(f"the index {name}", " ".join(made.split()))
        elif not valid[name]:
            yield MissingObject(f"a valid index {name}", f"REINDEX INDEX CONCURRENTLY {quoted(schema)}.{name}")
