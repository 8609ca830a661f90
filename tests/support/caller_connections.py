"""Connections of a program that has tables of its own in the database of a store."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import psycopg

from onward.ledger.postgres.store_url import read_url


class Place(NamedTuple):
    """The database of a store, as other programs name it."""

    file: str  # Of SQLite; empty: it is PostgreSQL
    conninfo: str
    schema: str

    @property
    def table(self) -> str:
        return "incoming" if self.file else f'"{self.schema}".incoming'

    @property
    def users(self) -> str:
        """The statement that makes a table of the program's own; that of a server goes with its connection."""
        return f"CREATE {'TABLE IF NOT EXISTS' if self.file else 'TEMPORARY TABLE'} users (name text)"

    def url(self, driver: str) -> str:
        """The URL of a SQLAlchemy engine."""
        if self.file:
            return f"sqlite+{driver}:///{self.file}"
        parts = psycopg.conninfo.conninfo_to_dict(self.conninfo)
        user = f"{parts['user']}@" if parts.get("user") else ""
        return f"postgresql+{driver}://{user}{parts['host']}:{parts['port']}/{parts['dbname']}"


def place_of(store_url: str) -> Place:
    if store_url.startswith("sqlite"):
        return Place(store_url.removeprefix("sqlite:///"), "", "")
    found = read_url(store_url)
    return Place("", found.conninfo, found.schema)


@contextmanager
def connected(store_url: str) -> Iterator[Any]:
    """Open a connection of the program, with its table `users`; it commits nothing by itself."""
    place = place_of(store_url)
    connection: Any = sqlite3.connect(place.file) if place.file else psycopg.connect(place.conninfo)
    try:
        connection.execute(place.users)
        connection.commit()
        yield connection
    finally:
        connection.close()


def insert_row(connection: Any, store_url: str, body: str | bytes, **columns: Any) -> None:
    """Insert a row into `incoming` as anybody could; values of other columns are SQL."""
    names = "".join(f", {name}" for name in columns)
    values = "".join(f", {value}" for value in columns.values())
    place = place_of(store_url)
    mark = "?" if place.file else "%s"
    connection.execute(f"INSERT INTO {place.table} (body{names}) VALUES ({mark}{values})", (body,))


def waiting(store_url: str) -> int:
    """Count the rows that wait to be moved."""
    with connected(store_url) as connection:
        (count,) = connection.execute(f"SELECT count(*) FROM {place_of(store_url).table}").fetchone()
    return int(count)
