"""Sweeping a store in PostgreSQL out: quicker than making its tables anew."""

from __future__ import annotations

import psycopg


def sweep_store(url: str) -> None:
    """Delete everything in a store, but not its tables."""
    address, _, schema = url.partition("?schema=")
    with psycopg.connect(address, autocommit=True, options=f"-c search_path={schema}") as connection:
        tables = connection.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", [schema]).fetchall()
        for (table,) in tables:
            if table != "schema_version":
                connection.execute(f"DELETE FROM {table}".encode())
