"""New stores in SQLite as copies of an empty one: running all migrations takes longer than most tests."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pytest

from onward.ledger.sqlite.dialect import SQLiteDatabase


@contextmanager
def copied_stores() -> Iterator[None]:
    """Copy the tables into each new database of this process; one that has tables is migrated as usual."""
    migrate = SQLiteDatabase._migrate
    lock = threading.Lock()  # a copy would wait for one that another thread makes in the same file

    def copy_or_migrate(database: SQLiteDatabase) -> None:
        with lock:
            if _is_new(database._writer):
                template._writer.backup(database._writer)
        migrate(database)

    with closing(SQLiteDatabase(":memory:")) as template, pytest.MonkeyPatch.context() as patch:
        patch.setattr(SQLiteDatabase, "_migrate", copy_or_migrate)
        yield


def _is_new(connection: sqlite3.Connection) -> bool:
    try:
        (tables,) = connection.execute("SELECT count(*) FROM sqlite_master").fetchone()
        (version,) = connection.execute("PRAGMA user_version").fetchone()
    except sqlite3.Error:
        return False  # the migration reports what is wrong
    return not tables and not version
