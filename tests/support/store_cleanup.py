"""Sweeping a store in PostgreSQL out: quicker than making its tables anew."""

from __future__ import annotations

import psycopg


def sweep_store(url: str) -> None:
    """Delete everything in a store, but not its tables."""
    address, _, schema = url.partition("?schema=")
    with psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}") as connection:
        connection.execute(end_holders(schema).encode())
        tables = connection.execute(
            "SELECT tablename FROM pg_tables WHERE schemaname = %s AND tablename <> 'schema_version'", [schema]
        ).fetchall()
        # In one go: after most tests the way there and back would take longer than all the rest.
        connection.execute("; ".join(f"DELETE FROM {table}" for (table,) in tables).encode())


def end_holders(schema: str) -> str:
    """A statement that ends connections which a test left inside a transaction: they hold the schema's tables."""
    return f"""
        SELECT pg_terminate_backend(pid) FROM pg_locks JOIN pg_class ON pg_class.oid = pg_locks.relation
        JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace WHERE nspname = '{schema}'"""
