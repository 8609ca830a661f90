"""The SQLite dialect: connections, transactions, named statements, wake-ups and errors of one file."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any

from pydantic_core import from_json

from onward.ledger.dialect import Bus
from onward.ledger.named_statements import load_scripts, load_statements
from onward.ledger.store_errors import StoreError, StoreFull, StoreGone, StoreOutdated, StoreUnavailable
from onward.model.clock import Clock, SystemClock

SCHEMA_VERSION = 25
BUSY_SECONDS = 30.0
BUSY_STEP_SECONDS = 0.001
POLL_SECONDS = 0.02
WRITER_CACHE_KB, READER_CACHE_KB = (8_000, 1_000)  # One writer, `MAX_READERS` readers: all must be small
MAX_READERS = 8  # Read connections of a process. Each has two file descriptors and a page cache
WAIT_SECONDS = 30.0  # How long a read waits for a connection to become free
_LAST_ROW = {
    "ledger": "SELECT seq FROM sqlite_sequence WHERE name = 'ledger'",
    "documents": "SELECT max(doc) FROM documents",
}
_NUMBERED = re.compile(r"\?(\d+)")
_BULK_ROWS = (256, 64, 16, 4, 1)  # Rows per statement: a few fixed sizes, so that prepared statements are reused


class SQLiteDatabase:
    """A database file, or `:memory:`. Writes go through one connection; reads have their own."""

    remote = False
    keeps_old_rows = False
    kind = "sqlite"
    incoming_table = "main.incoming"
    returned = incoming = 0

    def __init__(self, path: str | Path) -> None:
        self.path = str(path)
        self.in_memory = self.path == ":memory:"
        self.file = None if self.in_memory else self.path
        self._lock = threading.RLock()
        self._depth = 0
        self._broken = False
        self._reserved: dict[str, int] = {}  # The last row id of a table that this transaction has reserved
        self._file: tuple[int, int] | None = None  # Device and inode of the file that is open
        self.readers = ReaderPool(
            self.path, lambda: self._connect(f"cache_size = -{READER_CACHE_KB}", "query_only = ON")
        )
        if not self.in_memory:
            try:
                Path(self.path).parent.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise StoreFull(
                    f"the folder of {self.path} cannot be made: {error.strerror}. Make it writable, or name "
                    "another one with ONWARD_HOME or ONWARD_STORE"
                ) from error
        with self._errors():
            self._writer = self._connect(f"cache_size = -{WRITER_CACHE_KB}")
        try:
            with self._errors():
                # Changing the mode does not wait for a lock as other statements do, and another process may be
                # opening the same new file.
                self._execute_when_free("PRAGMA journal_mode = WAL")
                self._writer.execute("PRAGMA synchronous = FULL")
                self._writer.execute("PRAGMA busy_timeout = 0")
            self._migrate()
            self._file = None if self.in_memory else _identity(self.path)
        except BaseException:
            self.close()
            raise

    def _connect(self, *pragmas: str) -> sqlite3.Connection:
        # By name: from Python 3.13 on, a second positional argument is deprecated.
        connection = sqlite3.connect(
            self.path, timeout=BUSY_SECONDS, isolation_level=None, check_same_thread=False, cached_statements=512
        )
        try:
            for pragma in pragmas:
                connection.execute(f"PRAGMA {pragma}")
        except sqlite3.Error:
            connection.close()
            raise
        return connection

    def _execute_when_free(self, text: str) -> None:
        """Execute a statement that takes a lock. SQLite's own busy handler sleeps up to 0.1 s, mostly in vain."""
        gives_up = time.monotonic() + BUSY_SECONDS
        while True:
            try:
                self._writer.execute(text)
                return
            except sqlite3.OperationalError as error:
                if error_code(error) != sqlite3.SQLITE_BUSY or time.monotonic() > gives_up:
                    raise
            time.sleep(BUSY_STEP_SECONDS)

    def _schema_version(self) -> int:
        (found,) = self._writer.execute("PRAGMA user_version").fetchone()
        if found > SCHEMA_VERSION:
            raise StoreError(
                f"{self.path} has schema version {found}, written by a newer Onward; this one knows "
                f"version {SCHEMA_VERSION}. Upgrade: pip install --upgrade onward"
            )
        return int(found)

    def _check_version(self) -> None:
        """Refuse tables that a newer Onward has upgraded since this process has opened them."""
        (found,) = self._writer.execute("PRAGMA user_version").fetchone()
        if found > SCHEMA_VERSION:
            raise StoreOutdated(
                f"{self.path} was upgraded to schema version {found} by a newer Onward while this process had it "
                f"open; this one knows version {SCHEMA_VERSION}. Nothing was lost. Upgrade: "
                "pip install --upgrade onward"
            )

    def _migrate(self) -> None:
        with self._errors():
            if self._schema_version() == SCHEMA_VERSION:
                return
        with self.transaction():
            found = self._schema_version()  # another process may have migrated it
            for script in load_scripts(__package__, "migrations")[found:]:
                # Not by executescript(), which would commit the transaction.
                for text in _statements(script):
                    self._writer.execute(text)
            self._writer.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")

    def _check_file(self) -> None:
        """Refuse a file that was deleted or replaced: SQLite would go on with it. That takes a microsecond."""
        if self._file is None or (found := _identity(self.path)) == self._file:
            return
        raise StoreGone(
            f"{self.path} was {'replaced' if found else 'deleted'} while this process had it open: nothing that "
            "it does now would be kept. Put the data folder back, or start again to go on with what is there"
        )

    def clock(self) -> Clock:
        return SystemClock()

    def exact_time(self) -> float:
        return time.time()

    def bus(self) -> Bus:
        return PollingBus(self)

    def close(self) -> None:
        self.readers.close()
        with self._lock:
            self._writer.close()

    @contextmanager
    def transaction(self, *, alone: bool = False) -> Iterator[None]:
        """Hold the write lock; commit at the end of the outermost block, or roll everything back."""
        # `alone` changes nothing: there is one writer at a time.
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
            self._check_file()
            self._execute_when_free("BEGIN IMMEDIATE")
            self._depth = 1
            self._broken = False
            self._reserved.clear()
            try:
                self._check_version()
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

    def read(self, name: str, *parameters: Any) -> Any:
        """Return the JSON value of a named query. Outside of a transaction it does not wait for writers."""
        found = self.fetch(name, *parameters)
        if not found:
            return None
        value = found[0][0]
        return from_json(value) if isinstance(value, str) else value

    def read_unlocked(self, name: str, *parameters: Any) -> Any:
        return self.read(name, *parameters)  # the one writer has locked everything

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool:
        return False  # there is one writer at a time

    def notify_on_commit(self, woken: set[str], returned: set[str]) -> None:
        """Do nothing: waiting processes poll the file."""

    def in_transaction(self) -> bool:
        """Return whether this thread is inside a transaction; transactions of other threads do not count."""
        if not self._depth or not self._lock.acquire(blocking=False):
            return False
        try:
            return self._depth > 0
        finally:
            self._lock.release()

    def run(self, name: str, *parameters: Any) -> int:
        return self._writer.execute(*_bound(name, parameters)).rowcount

    def send(self, name: str, *parameters: Any) -> None:
        self.run(name, *parameters)

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        start = 0
        for size in _BULK_ROWS:
            while len(rows) - start >= size:
                chunk = rows[start : start + size]
                text = _bulk_statement(name, len(chunk[0]), size)
                self._writer.execute(text, [value for row in chunk for value in row])
                start += size

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        text, values = _bound(name, parameters)
        with self._errors():
            if self.in_memory or self.in_transaction():
                with self._lock:
                    return self._writer.execute(text, values).fetchall()
            self._check_file()
            return self.readers.fetch(text, values)

    def reserve(self, table: str) -> int:
        if table not in self._reserved:
            found = self._writer.execute(_LAST_ROW[table]).fetchone()
            self._reserved[table] = (found and found[0]) or 0
        self._reserved[table] += 1
        return self._reserved[table]

    def changes(self) -> int:
        """Return a number that changes when another connection commits."""
        self._check_file()
        with self._lock, self._errors():
            (version,) = self._writer.execute("PRAGMA data_version").fetchone()
        return int(version)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except sqlite3.Error as error:
            raise self._explain(error) from error

    def _explain(self, error: sqlite3.Error) -> Exception:
        code = error_code(error)
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


def _identity(path: str) -> tuple[int, int] | None:
    """Return device and inode of a file, or None if it does not exist."""
    try:
        found = os.stat(path)  # noqa: PTH116  # `Path` takes twice as long
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _bound(name: str, parameters: Sequence[Any]) -> tuple[str, Any]:
    """Return a named statement and the values of its placeholders; lists are given as JSON."""
    text, order = statement(name)
    if len(parameters) == 1 and isinstance(parameters[0], Mapping):
        return text, parameters[0]
    values = [json.dumps(value) if isinstance(value, list | tuple) else value for value in parameters]
    return text, [values[position] for position in order] if order else values


def error_code(error: sqlite3.Error) -> int:
    return int(getattr(error, "sqlite_errorcode", 0)) & 0xFF


def _statements(script: str) -> Iterator[str]:
    text = ""
    for line in script.splitlines(keepends=True):
        text += line
        if sqlite3.complete_statement(text):
            yield text
            text = ""


@cache
def statement(name: str) -> tuple[str, tuple[int, ...]]:
    """Return a named statement, and the position of the parameter for each of its numbered placeholders."""
    # Python before 3.12.4 takes ?1 for a named placeholder, and warns when it is given a sequence.
    text = load_statements(__package__)[name][0]
    return _NUMBERED.sub("?", text), tuple(int(number) - 1 for number in _NUMBERED.findall(text))


@cache
def _bulk_statement(name: str, width: int, size: int) -> str:
    """Return a named `{values}` statement for a number of rows."""
    row = "(" + ",".join("?" * width) + ")"
    return load_statements(__package__)[name][0].replace("{values}", ",".join([row] * size))


class PollingBus:
    """Polls the file for commits of other connections, which takes a few microseconds."""

    def __init__(self, database: SQLiteDatabase) -> None:
        self._database = database
        self._woken = threading.Event()
        self._seen = database.changes()

    def wait(self, seconds: float) -> bool:
        ends, woken = time.monotonic() + seconds, False
        while not woken and (left := ends - time.monotonic()) > 0:
            woken = self._woken.wait(min(POLL_SECONDS, left))
            version = self._seen if woken else self._database.changes()
            if version != self._seen:
                self._seen, woken = version, True
                self._database.incoming += 1
        self._woken.clear()
        return woken

    def wake(self) -> None:
        self._woken.set()

    close = wake


class ReaderPool:
    """Opens read connections when they are needed, and uses them again, each for one statement and its rows.

    So it holds no snapshot afterwards, and a thread never waits for a connection while it holds another.
    """

    def __init__(self, path: str, connect: Callable[[], sqlite3.Connection]) -> None:
        self._path, self._connect = path, connect
        self._idle: list[sqlite3.Connection] = []
        self._opened = self._waiting = 0
        self._closed = False
        self._given_back = threading.Condition()

    def fetch(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        connection = self.take()
        try:
            return connection.execute(statement, values).fetchall()
        finally:
            self.give_back(connection)

    def take(self) -> sqlite3.Connection:
        # pop() and append() of a list are atomic: the lock is needed only if the list is empty.
        try:
            return self._idle.pop()
        except IndexError:
            return self._open_or_wait()

    def give_back(self, connection: sqlite3.Connection) -> None:
        self._idle.append(connection)
        if self._closed:
            self._close_idle()
        if self._waiting:
            with self._given_back:
                self._given_back.notify()

    def close(self) -> None:
        """Close all connections; those in use are closed when they are given back."""
        self._closed = True
        self._close_idle()
        with self._given_back:
            self._given_back.notify_all()

    def _close_idle(self) -> None:
        with suppress(IndexError):
            while True:
                self._idle.pop().close()

    def _open_or_wait(self) -> sqlite3.Connection:
        gives_up = time.monotonic() + WAIT_SECONDS
        with self._given_back:
            self._waiting += 1  # before the list is read: a connection given back after that notifies
            try:
                while True:
                    with suppress(IndexError):
                        return self._idle.pop()
                    if self._closed:
                        raise StoreError(f"{self._path} is closed; open the store again")
                    if self._opened < MAX_READERS:
                        connection = self._connect()
                        self._opened += 1
                        return connection
                    if not self._given_back.wait(gives_up - time.monotonic()):
                        raise StoreUnavailable(
                            f"all {MAX_READERS} read connections of this process to {self._path} were busy for "
                            f"{WAIT_SECONDS:g} s. Send fewer requests at once, or try again later"
                        )
            finally:
                self._waiting -= 1
