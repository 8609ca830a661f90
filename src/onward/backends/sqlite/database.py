"""One SQLite file: its connections, transactions, named statements and errors."""

from __future__ import annotations

import json
import re
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from onward.ports import StoreError, StoreFull, StoreUnavailable

SCHEMA_VERSION = 6
BUSY_SECONDS = 30.0
BUSY_STEP = 0.001
WRITER_CACHE, READER_CACHE = 8_000, 1_000
"""In kB. There is one writer, but a reader for each thread: all of them together must stay small."""
_LAST_ROW = {
    "ledger": "SELECT seq FROM sqlite_sequence WHERE name = 'ledger'",
    "documents": "SELECT max(doc) FROM documents",
}
_BULK = (256, 64, 16, 4, 1)
"""Rows per statement. A few fixed sizes, so that the prepared statements are found again."""


@cache
def queries() -> dict[str, str]:
    """The named statements of this dialect."""
    written = [one for one in files(__package__).joinpath("queries").iterdir() if one.name.endswith(".sql")]
    text = "\n".join(one.read_text() for one in sorted(written, key=lambda one: one.name))
    parts = re.split(r"^-- name: (\w+)$", text, flags=re.MULTILINE)[1:]
    return {name: body.strip().rstrip(";") for name, body in zip(parts[::2], parts[1::2], strict=True)}


@cache
def _bulk_statement(name: str, width: int, size: int) -> str:
    row = "(" + ",".join("?" * width) + ")"
    return queries()[name].replace("{values}", ",".join([row] * size))


class Database:
    """A database file, or `:memory:`. Writes go through one connection; reads have their own."""

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.in_memory = self.path == ":memory:"
        self._lock = threading.RLock()
        self._depth = 0
        self._broken = False
        self._reserved: dict[str, int] = {}
        """The last row id of a table that this transaction was promised."""
        self._local = threading.local()
        self._readers: list[sqlite3.Connection] = []
        if not self.in_memory:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreFull(
                    f"the folder of {self.path} cannot be made: {error.strerror}. Make it writable, or name "
                    "another one with ONWARD_HOME or ONWARD_STORE"
                ) from error
        with self._errors():
            self._writer = self._connect()
        try:
            with self._errors():
                self._use_wal()
                self._writer.execute("PRAGMA synchronous = FULL")
                self._writer.execute("PRAGMA busy_timeout = 0")
            self._migrate()
        except BaseException:
            self.close()
            raise

    def _connect(self, cache: int = WRITER_CACHE) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self.path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        try:
            connection.execute(f"PRAGMA cache_size = -{cache}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _use_wal(self) -> None:
        # Changing the mode does not wait for a lock as other statements do: another process may be
        # opening the same new file.
        gives_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._writer.execute("PRAGMA journal_mode = WAL")
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > gives_up:
                    raise
            time.sleep(0.01)

    def _schema_version(self) -> int:
        (found,) = self._writer.execute("PRAGMA user_version").fetchone()
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema version {found}, written by a newer Onward; this one knows "
                f"version {SCHEMA_VERSION}. Upgrade: pip install --upgrade onward"
            )
        return int(found)

    def _migrate(self) -> None:
        with self._errors():
            if self._schema_version() == SCHEMA_VERSION:
                return
        with self.transaction():
            found = self._schema_version()  # another process may have come first
            steps = sorted(files(__package__).joinpath("migrations").iterdir(), key=lambda step: step.name)
            for number, step in enumerate(steps, start=1):
                if number > found:
                    for statement in _statements(step.read_text()):
                        self._writer.execute(statement)
                    self._writer.execute(f"PRAGMA user_version = {number}")

    def close(self) -> None:
        with self._lock:
            self._writer.close()
            for reader in self._readers:
                reader.close()
            self._readers.clear()

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[None]:
        """Hold the write lock; commit at the end of the outermost block, or roll everything back."""
        # There is one writer at a time: everybody is alone.
        with self._lock, self._errors():
            if self._depth:
                self._depth += 1
                try:
                    yield
                except BaseException:
                    self._broken = True
                    raise
                finally:
                    self._depth -= 1
                return
            self._begin()
            self._depth = 1
            self._broken = False
            self._reserved.clear()
            try:
                yield
                if self._broken:
                    raise StoreError("a step of this transaction failed, so nothing of it was written")
                self._writer.execute("COMMIT")
            except BaseException:
                if self._writer.in_transaction:
                    self._writer.execute("ROLLBACK")
                raise
            finally:
                self._depth = 0

    def _begin(self) -> None:
        # SQLite's own waiting sleeps ever longer, up to 0.1 s, and so most of the time that the lock is free.
        gives_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._writer.execute("BEGIN IMMEDIATE")
                return
            except sqlite3.OperationalError as error:
                if _code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > gives_up:
                    raise
            time.sleep(BUSY_STEP)

    def read(self, name: str, *parameters: Any) -> Any:
        """The JSON answer of a named query. Outside of a transaction it does not wait for writers."""
        values = [json.dumps(one) if isinstance(one, list | tuple) else one for one in parameters]
        with self._errors():
            if self.in_memory or self.in_transaction():
                with self._lock:
                    found = self._writer.execute(queries()[name], values).fetchone()
            else:
                found = self._reader().execute(queries()[name], values).fetchone()
        if found is None or not isinstance(found[0], str):
            return None if found is None else found[0]
        return from_json(found[0])

    def glance(self, name: str, *parameters: Any) -> Any:
        """As `read`: the one writer has locked everything."""
        return self.read(name, *parameters)

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        """Nothing to do: there is one writer at a time."""
        return False

    def watch(self, woken: set[str]) -> None:
        """Nothing to do: who waits for this file asks it."""

    def in_transaction(self) -> bool:
        """Whether this thread is inside a transaction (another thread's is none of its business)."""
        if not self._depth or not self._lock.acquire(blocking=False):
            return False
        try:
            return self._depth > 0
        finally:
            self._lock.release()

    def _reader(self) -> sqlite3.Connection:
        reader: sqlite3.Connection | None = getattr(self._local, "reader", None)
        if reader is None:
            reader = self._local.reader = self._connect(READER_CACHE)
            reader.execute("PRAGMA query_only = ON")
            with self._lock:
                self._readers.append(reader)
        return reader

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement inside a transaction; answer how many rows it changed."""
        values: Any = [json.dumps(one) if isinstance(one, list | tuple) else one for one in parameters]
        if len(parameters) == 1 and isinstance(parameters[0], Mapping):
            values = parameters[0]
        return self._writer.execute(queries()[name], values).rowcount

    def send(self, name: str, *parameters: Any) -> None:
        """Execute a named statement inside a transaction."""
        self.run(name, *parameters)

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named `{values}` statement for many rows, in few steps."""
        start = 0
        for size in _BULK:
            while len(rows) - start >= size:
                chunk = rows[start : start + size]
                statement = _bulk_statement(name, len(chunk[0]), size)
                self._writer.execute(statement, [value for row in chunk for value in row])
                start += size

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query, for what JSON cannot carry: bytes."""
        values = [json.dumps(one) if isinstance(one, list | tuple) else one for one in parameters]
        with self._errors():
            if self.in_memory or self.in_transaction():
                with self._lock:
                    return self._writer.execute(queries()[name], values).fetchall()
            return self._reader().execute(queries()[name], values).fetchall()

    def reserve(self, table: str) -> int:
        """A row id that no row has had."""
        if table not in self._reserved:
            found = self._writer.execute(_LAST_ROW[table]).fetchone()
            self._reserved[table] = (found and found[0]) or 0
        self._reserved[table] += 1
        return self._reserved[table]

    def changes(self) -> int:
        """A number that differs after another connection has committed."""
        with self._lock, self._errors():
            (version,) = self._writer.execute("PRAGMA data_version").fetchone()
        return int(version)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explained(error) from error

    def _explained(self, error: sqlite3.Error) -> Exception:
        code = _code(error)
        if code in (sqlite3.SQLITE_FULL, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_PERM):
            return StoreFull(
                f"{self.path} cannot be written ({error}). Nothing was lost. Free some disk space, or make "
                "the file and its folder writable, and start again"
            )
        if code == sqlite3.SQLITE_CANTOPEN:
            return StoreFull(f"{self.path} cannot be opened ({error}). Check the path and its permissions")
        if code in (sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED):
            return StoreUnavailable(
                f"{self.path} was locked by another program for {BUSY_SECONDS:.0f} s. "
                "Close what holds it open, or wait"
            )
        if code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT):
            return StoreError(f"{self.path} is no intact SQLite database ({error}). Restore it from a copy")
        return StoreError(f"{self.path}: {error}") if isinstance(error, sqlite3.OperationalError) else error


def _code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _statements(script: str) -> Iterator[str]:
    # executescript() would commit the transaction that the migration runs in.
    statement = ""
    for line in script.splitlines(keepends=True):
        statement += line
        if sqlite3.complete_statement(statement):
            yield statement
            statement = ""
