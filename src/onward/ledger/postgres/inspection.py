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
from onward.ledger.postgres.connections import MAX_CONNECTIONS, SCHEMA_VERSION, Connection, Connections, quoted
from onward.ledger.postgres.error_messages import explained

MAX_QUERY_SECONDS = 20.0  # The time limit of a query about all documents
MAX_PROCESS_CONNECTIONS = MAX_CONNECTIONS + 1  # That a worker process may open: its store's, and one for LISTEN
LONG_TRANSACTION_SECONDS = 600.0
LATENCY_SAMPLES = 5

_SERVER = """
SELECT current_setting('server_version'), pg_is_in_recovery(),
       -- The default for other connections: this one is read-only.
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
    with _looking(url) as (connections, connection):
        return ("schema_version",) in _rows(connection, _TABLES, connections.schema)


def examine(url: str, *, future: float, seconds: float = MAX_QUERY_SECONDS) -> ServerInspection:
    """Inspect a server and a schema, with a time limit for each query about all documents; raises `StoreError`.

    Documents count as changed in the future if that is more than `future` seconds from now, by the server's clock.
    """
    with _looking(url) as (connections, connection):
        found = ServerInspection(connections.address, connections.schema)
        _ask_server(connection, found)
        tables = {name for (name,) in _rows(connection, _TABLES, found.schema_name)}
        if "schema_version" not in tables:
            return found
        usage, found.may_upgrade = _rows(connection, _SCHEMA, found.schema_name)[0]
        if not usage:
            found.forbidden = [("the schema", "USAGE")]
            return found
        found.forbidden = [(name, rights) for name, rights in _rows(connection, _LACKING, found.schema_name)]
        if any(name == "schema_version" for name, _ in found.forbidden):
            return found
        version, serves = next(iter(_rows(connection, "SELECT version, serves FROM schema_version")), (0, 0))
        found.schema = SCHEMA_VERSION if serves <= SCHEMA_VERSION < version else version
        if found.schema != SCHEMA_VERSION:
            return found
        found.size = _rows(connection, _SIZE, found.schema_name)[0][0]
        found.lacking = list(_lacking(connection, found.schema_name, tables))
        found.bloated = [(name, dead) for name, dead in _rows(connection, _DEAD, found.schema_name)]
        if found.usable:
            connection.execute(f"SET statement_timeout = {round(seconds * 1000)}".encode())
            now = _rows(connection, _CLOCK)[0][0]
            with suppress(errors.QueryCanceled):
                ((found.future, found.latest),) = _rows(connection, _FUTURE, now + future)
            with suppress(errors.QueryCanceled):
                ((found.astray,),) = _rows(connection, _ASTRAY)
        return found


@contextmanager
def _looking(url: str) -> Iterator[tuple[Connections, Connection]]:
    connections = Connections(url, patience=MAX_QUERY_SECONDS + 10)
    try:
        connection = connections.open()
        try:
            connection.execute("SET default_transaction_read_only = on")
            yield connections, connection
        finally:
            connection.close()
    except psycopg.Error as error:
        raise explained(error, connections.address) from None
    finally:
        connections.close()


def _rows(connection: Connection, query: str, *values: Any) -> list[tuple[Any, ...]]:
    return connection.execute(query.encode(), values).fetchall()


def _ask_server(connection: Connection, found: ServerInspection) -> None:
    ((version, recovering, read_only, autovacuum, user, database, may_create),) = _rows(connection, _SERVER)
    found.server_version, found.user, found.database, found.may_create = version, user, database, may_create
    found.autovacuum = autovacuum
    if recovering:
        found.read_only = "it is a copy that follows another server"
    elif read_only:
        found.read_only = "default_transaction_read_only is on"
    found.encrypted, found.host = bool(connection.pgconn.ssl_in_use), connection.info.host
    found.latency, found.ahead = _compare_clocks(connection)
    ((most, used, of_user, of_database),) = _rows(connection, _SLOTS)
    found.slots, found.used = min([most, *(limit for limit in (of_user, of_database) if limit >= 0)]), used
    for pid, who, application, state, age in _rows(connection, _LONG, LONG_TRANSACTION_SECONDS):
        about = ", ".join(part for part in (who and f"user {who}", application, state) if part)
        found.long.append((pid, about or "of another user", age))
    found.prepared = [(gid, age) for gid, age in _rows(connection, _PREPARED, LONG_TRANSACTION_SECONDS)]


def _compare_clocks(connection: Connection) -> tuple[float, float]:
    """Return the median time of a few queries, and how far the server's clock is ahead by the quickest one."""
    samples = []
    for _ in range(LATENCY_SAMPLES):
        before, began = time.time(), time.monotonic()
        theirs = _rows(connection, _CLOCK)[0][0]
        took = time.monotonic() - began
        samples.append((took, theirs - (before + took / 2)))
    samples.sort()
    return samples[len(samples) // 2][0], samples[0][1]


def _lacking(connection: Connection, schema: str, tables: set[str]) -> Iterator[MissingObject]:
    """Compare the schema with what the migrations make."""
    text = re.sub(r"--[^\n]*", "", "\n".join(load_scripts(__package__, "migrations")))
    dropped = set(re.findall(r"\bDROP (?:TABLE|INDEX)(?: IF EXISTS)? (\w+)", text))
    for name in re.findall(r"\bCREATE TABLE (\w+)", text):
        if name not in tables | dropped:
            yield MissingObject(f"the table {name}")
    valid = dict(_rows(connection, _INDEXES, schema))
    for unique, name, table, rest in re.findall(
        r"\bCREATE (UNIQUE )?INDEX (\w+) ON (\w+)([^;]*);", text, flags=re.DOTALL
    ):
        if name in dropped or table not in tables:
            continue
        if name not in valid:
            made = f"CREATE {unique}INDEX CONCURRENTLY {name} ON {quoted(schema)}.{table}{rest}"
            yield MissingObject(f"the index {name}", " ".join(made.split()))
        elif not valid[name]:
            yield MissingObject(f"a valid index {name}", f"REINDEX INDEX CONCURRENTLY {quoted(schema)}.{name}")
