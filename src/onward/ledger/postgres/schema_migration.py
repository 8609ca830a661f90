"""Creating and upgrading the tables of a schema, by the first process that opens it."""

from __future__ import annotations

import psycopg
from psycopg import errors

from onward.ledger.named_statements import load_migrations
from onward.ledger.postgres.connections import Connection, Connections, lock_number, quoted
from onward.ledger.postgres.error_messages import explained
from onward.ledger.store_errors import StoreError

SCHEMA_VERSION = 1
OLDEST_COMPATIBLE_VERSION = 1  # The oldest schema version whose workers can go on working with this schema


def migrate(connections: Connections) -> None:
    """Create or upgrade the tables, unless another process has done so."""
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
    for script in load_migrations(__package__)[found:]:
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
