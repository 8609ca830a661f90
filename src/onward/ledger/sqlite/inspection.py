"""Inspecting a store's file for `onward doctor`, without creating, migrating or changing anything."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onward.ledger.named_statements import MissingObject, load_scripts
from onward.ledger.sqlite.dialect import SCHEMA_VERSION, error_code

LEAST_SQLITE = (3, 35)
MAX_QUERY_SECONDS = 20.0  # The time limit of a query that reads the whole file
MAX_CHECKED_BYTES = 2_000_000_000  # Before version 3.41, SQLite cannot interrupt the check of a larger file
_FUTURE = "SELECT count(*), max(updated_at) FROM documents WHERE updated_at > ?"
_COLUMNS = "SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'"
_INDEXES = "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
_ASTRAY = """
SELECT count(*) FROM documents d
WHERE row IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = d.row)
"""


@dataclass(frozen=True, slots=True)
class FileInspection:
    """The result of inspecting a file. A field is None if it was not checked, or if the check took too long."""

    schema: int
    known_schema: int = SCHEMA_VERSION
    damage: tuple[str, ...] | None = None
    missing: tuple[MissingObject, ...] = ()
    future: int | None = None  # Documents that were changed in the future
    latest: float | None = None
    astray: int | None = None  # Documents that point to ledger rows that do not exist

    @property
    def usable(self) -> bool:
        """Whether the file can be opened as a store."""
        return not self.damage and not self.missing


class Unreadable(Exception):
    """The file cannot be read as a database; the message says why."""


def read_schema_version(path: Path) -> int:
    """Return the version of the tables; 0: there are none, or no file that can be read as a database."""
    try:
        with closing(sqlite3.connect(f"file:{quote(str(path.absolute()))}?mode=ro", uri=True)) as connection:
            return int(connection.execute("PRAGMA user_version").fetchone()[0])
    except sqlite3.DatabaseError:
        return 0


def examine(path: Path, *, now: float, seconds: float = MAX_QUERY_SECONDS) -> FileInspection:
    """Inspect a file, with a time limit for each query."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None
    if start and start != b"SQLite format 3\0":
        raise Unreadable("it is no SQLite database")
    try:
        # Even a reader of a file in WAL mode creates files next to it. If there are none, no process has it open.
        mode = "mode=ro" if path.with_name(path.name + "-wal").exists() else "immutable=1"
        uri = f"file:{quote(str(path.absolute()))}?{mode}"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            if not schema or schema > SCHEMA_VERSION:
                return FileInspection(schema)
            damage = None
            if sqlite3.sqlite_version_info >= (3, 41) or path.stat().st_size <= MAX_CHECKED_BYTES:
                damage = _query(connection, seconds, "PRAGMA quick_check(5)")
            found = tuple(str(line) for (line,) in damage if line != "ok") if damage is not None else None
            if found:
                return FileInspection(schema, damage=found)
            if missing := tuple(_missing(connection, schema)):
                return FileInspection(schema, damage=found, missing=missing)
            future = _query(connection, seconds, _FUTURE, now)
            astray = _query(connection, seconds, _ASTRAY)
    except sqlite3.DatabaseError as error:
        if error_code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY):
            raise Unreadable(f"it cannot be read: {error}") from None
        raise Unreadable(f"it is no intact SQLite database ({error})") from None
    many, latest = future[0] if future else (None, None)
    count = astray[0][0] if astray else None
    return FileInspection(schema, damage=found, future=many, latest=latest, astray=count)


def _missing(connection: sqlite3.Connection, schema: int) -> Iterator[MissingObject]:
    """Compare a file with what the migrations up to its schema version make."""
    with closing(sqlite3.connect(":memory:")) as model:
        for script in load_scripts(__package__, "migrations")[:schema]:
            model.executescript(script)
        wanted, there = (list(database.execute(_COLUMNS)) for database in (model, connection))
        indexes = list(model.execute(_INDEXES))
    tables = {table for table, _ in there}
    for table in dict.fromkeys(table for table, _ in wanted):
        if table not in tables:
            yield MissingObject(f"the table {table}")
    for table, column in wanted:
        if table in tables and (table, column) not in there:
            yield MissingObject(f"the column {column} of {table}")
    existing = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    for name, table, made in indexes:
        if table in tables and name not in existing:  # not the indexes of missing tables
            yield MissingObject(f"the index {name}", made)


def _query(
    connection: sqlite3.Connection, seconds: float, query: str, *values: Any
) -> list[tuple[Any, ...]] | None:
    ends = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > ends, 10_000)
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        if error_code(error) == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    finally:
        connection.set_progress_handler(None, 0)
