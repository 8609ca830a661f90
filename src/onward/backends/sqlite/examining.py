"""Look at a store's file without opening it as a store: nothing is made, migrated or changed."""

from __future__ import annotations

import sqlite3
import time
from contextlib import closing
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any
from urllib.parse import quote

from onward.backends.sqlite.database import SCHEMA_VERSION

LEAST_SQLITE = (3, 35)
LONGEST_LOOK = 20.0
"""Seconds that a look through the whole file may take."""
LARGEST_CHECKED = 2_000_000_000
"""In bytes. Before version 3.41 SQLite cannot be interrupted while it checks a file."""
_STEPS = 10_000
_FUTURE = "SELECT count(*), max(updated_at) FROM documents WHERE updated_at > ?"
_COLUMNS = """
SELECT t.name, c.name FROM sqlite_master t, pragma_table_info(t.name) c WHERE t.type = 'table'
"""
_ASTRAY = """
SELECT count(*) FROM documents d
WHERE row IS NOT NULL AND NOT EXISTS (SELECT 1 FROM ledger l WHERE l.id = d.row)
"""


@dataclass(frozen=True, slots=True)
class Missing:
    """A table, column or index that is not there; an index can be made anew."""

    what: str
    statement: str = ""


@dataclass(frozen=True, slots=True)
class Examined:
    """What was found in a file; None: it was not looked for, or there was no time for it."""

    schema: int
    known_schema: int = SCHEMA_VERSION
    damage: tuple[str, ...] | None = None
    missing: tuple[Missing, ...] = ()
    """What a store of this schema version has, and this one has not."""
    future: int | None = None
    """Documents that were changed in the future."""
    latest: float | None = None
    astray: int | None = None
    """Documents that point to ledger rows that do not exist."""

    @property
    def usable(self) -> bool:
        """Whether it can be opened as a store."""
        return not self.damage and not self.missing


class Unreadable(Exception):
    """The file cannot be read as a database; the message says why."""


def examine(path: Path, *, now: float, seconds: float = LONGEST_LOOK) -> Examined:
    """Look through a file, each question for so many seconds at most."""
    try:
        with path.open("rb") as file:
            start = file.read(16)
    except OSError as error:
        raise Unreadable(f"it cannot be read: {error.strerror}") from None
    if start and start != b"SQLite format 3\0":
        raise Unreadable("it is no SQLite database")
    try:
        with closing(_open(path)) as connection:
            (schema,) = connection.execute("PRAGMA user_version").fetchone()
            if not schema or schema > SCHEMA_VERSION:
                return Examined(schema)
            damage = None
            if sqlite3.sqlite_version_info >= (3, 41) or path.stat().st_size <= LARGEST_CHECKED:
                damage = _ask(connection, seconds, "PRAGMA quick_check(5)")
            found = tuple(str(one) for (one,) in damage if one != "ok") if damage is not None else None
            if found:
                return Examined(schema, damage=found)
            if missing := _missing(connection, schema):
                return Examined(schema, damage=found, missing=missing)
            future = _ask(connection, seconds, _FUTURE, now)
            astray = _ask(connection, seconds, _ASTRAY)
    except sqlite3.DatabaseError as error:
        if _code(error) in (sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_BUSY):
            raise Unreadable(f"it cannot be read: {error}") from None
        raise Unreadable(f"it is no intact SQLite database ({error})") from None
    many, latest = future[0] if future else (None, None)
    return Examined(schema, damage=found, future=many, latest=latest, astray=astray[0][0] if astray else None)


def _missing(connection: sqlite3.Connection, schema: int) -> tuple[Missing, ...]:
    """Compare a file with what the migrations up to its schema version make."""
    with closing(sqlite3.connect(":memory:")) as model:
        steps = sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda step: step.name)
        for step in steps[:schema]:
            model.executescript(step.read_text())
        wanted, there = _tables(model), _tables(connection)
        # Those of a missing table go with it.
        indexes = {
            name: statement
            for name, table, statement in model.execute(
                "SELECT name, tbl_name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL"
            )
            if table in there
        }
    known = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'index'")}
    return (
        *(Missing(f"the table {name}") for name in wanted if name not in there),
        *(
            Missing(f"the column {column} of {name}")
            for name, columns in wanted.items()
            for column in columns
            if name in there and column not in there[name]
        ),
        *(Missing(f"the index {name}", made) for name, made in indexes.items() if name not in known),
    )


def _tables(connection: sqlite3.Connection) -> dict[str, list[str]]:
    tables: dict[str, list[str]] = {}
    for table, column in connection.execute(_COLUMNS):
        tables.setdefault(table, []).append(column)
    return tables


def _open(path: Path) -> sqlite3.Connection:
    # Even to read, SQLite would make files beside one in WAL mode; where there are none, nobody writes.
    quiet = not path.with_name(path.name + "-wal").exists()
    mode = "immutable=1" if quiet else "mode=ro"
    return sqlite3.connect(f"file:{quote(str(path.absolute()))}?{mode}", uri=True, isolation_level=None)


def _ask(connection: sqlite3.Connection, seconds: float, query: str, *values: Any) -> list[tuple[Any, ...]] | None:
    ends = time.monotonic() + seconds
    connection.set_progress_handler(lambda: time.monotonic() > ends, _STEPS)
    try:
        return connection.execute(query, values).fetchall()
    except sqlite3.OperationalError as error:
        if _code(error) == sqlite3.SQLITE_INTERRUPT:
            return None
        raise
    finally:
        connection.set_progress_handler(None, 0)


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF
