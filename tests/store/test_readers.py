"""Reads of an SQLite file share a few connections, whatever number of threads asks."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from onward.ledger.sqlite import SQLiteStore, dialect
from onward.ledger.sqlite.dialect import MAX_READERS
from onward.ledger.store_errors import StoreError, StoreFull, StoreUnavailable
from tests.support.store_pages import Clock, Stage

READER_FILES = 2 * MAX_READERS
"""A connection has the database and its write-ahead log open."""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
def store(file: Path) -> Iterator[SQLiteStore]:
    store = SQLiteStore(file, Clock())
    yield store
    store.close()


def open_files(file: Path) -> int:
    """How many descriptors of this process lead to the store's files."""
    found = 0
    for descriptor in Path("/proc/self/fd").iterdir():
        with suppress(FileNotFoundError):  # the descriptor of the listing itself
            found += str(descriptor.readlink()).startswith(str(file))
    return found


def test_sixty_short_threads_leave_one_connection_behind(store: SQLiteStore, file: Path) -> None:
    before = open_files(file)
    for _ in range(60):
        thread = threading.Thread(target=store.document_counts)
        thread.start()
        thread.join()
    assert open_files(file) - before <= 2, "one reads after the other: they share a connection"


def test_sixty_threads_at_once_share_the_connections(store: SQLiteStore, file: Path) -> None:
    before = open_files(file)
    start = threading.Barrier(60)

    def read() -> dict[str, dict[str, int]]:
        start.wait()
        return store.document_counts()

    with ThreadPoolExecutor(60) as threads:
        found = [one.result() for one in [threads.submit(read) for _ in range(60)]]
    assert found == [{}] * 60
    assert 0 < open_files(file) - before <= READER_FILES


def test_who_finds_no_connection_free_is_told_so_in_the_end(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(dialect, "WAIT_SECONDS", 0.01)
    with all_in_use(store):
        with pytest.raises(StoreUnavailable, match=rf"all {MAX_READERS} read connections .*onward\.db were busy"):
            store.document_counts()
        assert store.claim("anna", "reading", limit=1, lease=60.0) == [], "a transaction has its own"
    assert store.document_counts() == {}, "they are free again"


def test_who_waits_gets_the_connection_that_becomes_free(store: SQLiteStore) -> None:
    with ThreadPoolExecutor(1) as another:
        with all_in_use(store):
            waiting = another.submit(store.document_counts)
        assert waiting.result() == {}


def test_a_file_that_could_not_be_opened_once_can_be_read_later(
    store: SQLiteStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as trouble:
        trouble.setattr(sqlite3, "connect", out_of_descriptors)
        for _ in range(2 * MAX_READERS):
            with pytest.raises(StoreFull, match=r"onward\.db"):
                store.document_counts()
    assert store.document_counts() == {}


def out_of_descriptors(*args: object, **more: object) -> None:
    error = sqlite3.OperationalError("unable to open database file")
    error.sqlite_errorcode = sqlite3.SQLITE_CANTOPEN
    raise error


@contextmanager
def all_in_use(store: SQLiteStore) -> Iterator[None]:
    """As if other threads were reading with all connections."""
    pool = store.db.readers
    taken = [pool.take() for _ in range(MAX_READERS)]
    yield
    for connection in taken:
        pool.give_back(connection)


def test_a_connection_that_is_not_in_use_holds_no_old_snapshot(store: SQLiteStore, file: Path) -> None:
    """The write-ahead log can be emptied: nobody still reads what was there before."""
    stage = Stage(store, Clock())
    stage.bring("a")
    assert store.document_counts() == {"pages": {"pending": 1}}
    stage.bring("b")
    other = sqlite3.connect(file)
    assert other.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone() == (0, 0, 0)
    other.close()


def test_a_store_that_is_closed_opens_no_connection_again(store: SQLiteStore, file: Path) -> None:
    store.document_counts()
    store.close()
    assert open_files(file) == 0
    with pytest.raises(StoreError, match=r"onward\.db is closed"):
        store.document_counts()
    assert open_files(file) == 0


def test_a_store_that_is_closed_while_it_is_read_closes_that_connection_afterwards(
    store: SQLiteStore, file: Path
) -> None:
    with all_in_use(store):
        store.close()
        assert open_files(file) > 0
    assert open_files(file) == 0
