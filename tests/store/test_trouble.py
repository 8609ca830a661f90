"""When the file cannot be used, the store says what is wrong and what helps, and has lost nothing."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path

import pytest

from onward.backend_urls import open_store
from onward.ledger.sqlite import SQLiteStore, dialect
from onward.ledger.store_errors import StoreError, StoreFull, StoreGone, StoreUnavailable
from onward.model.ledger import Processed
from tests.support.store_pages import Clock, Page, Stage, page


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@pytest.fixture
def stage(file: Path) -> Iterator[Stage]:
    clock = Clock()
    store = SQLiteStore(file, clock)
    yield Stage(store, clock)
    store.close()


def writer(stage: Stage) -> sqlite3.Connection:
    assert isinstance(stage.store, SQLiteStore)
    return stage.store.db._writer


def test_a_file_of_a_newer_version_is_refused(file: Path) -> None:
    open_store(f"sqlite:///{file}").close()
    with sqlite3.connect(file) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()
    with pytest.raises(StoreError, match=r"schema version 99.*newer Onward.*pip install --upgrade onward"):
        open_store(f"sqlite:///{file}")


def test_a_file_that_is_no_database_is_refused_and_left_as_it_is(file: Path) -> None:
    file.write_bytes(b"Dear diary, " * 1000)
    with pytest.raises(StoreError, match="no intact SQLite database"):
        open_store(f"sqlite:///{file}")
    assert file.read_bytes() == b"Dear diary, " * 1000


def test_a_folder_that_cannot_be_made_is_named(file: Path) -> None:
    file.write_text("a file where a folder should be")
    with pytest.raises(StoreFull, match=r"the folder of .*cannot be made"):
        open_store(f"sqlite:///{file / 'onward.db'}")


def test_a_folder_in_place_of_the_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreFull, match="Check the path and its permissions"):
        open_store(f"sqlite:///{tmp_path}")


def test_an_unknown_kind_of_store_is_refused_with_those_that_are_known() -> None:
    with pytest.raises(StoreError, match=r"'mongodb'.*use sqlite:///"):
        open_store("mongodb://localhost")


def test_a_file_that_has_become_read_only_is_named_and_nothing_is_lost(stage: Stage) -> None:
    stage.bring("a")
    writer(stage).execute("PRAGMA query_only = ON")
    with pytest.raises(StoreFull, match="make the file and its folder writable"):
        stage.take()
    assert stage.text("a") == "", "it can still be read"
    writer(stage).execute("PRAGMA query_only = OFF")
    stage.settle(stage.take(), Processed(["a"]))
    assert stage.state("a").status == "processed"


def test_a_full_disk_is_named_and_nothing_is_lost(stage: Stage) -> None:
    stage.bring("a")
    delivery = stage.take()
    (pages,) = writer(stage).execute("PRAGMA page_count").fetchone()
    writer(stage).execute(f"PRAGMA max_page_count = {pages}")
    with pytest.raises(StoreFull, match="Free some disk space"):
        stage.settle(delivery, Processed(["a"]), adds=[page("large", "x" * 1_000_000)])
    assert (stage.state("a").status, stage.store.get(Page, "large")) == ("pending", None)
    writer(stage).execute("PRAGMA max_page_count = 1000000")
    stage.settle(delivery, Processed(["a"]), adds=[page("large", "x" * 1_000_000)])
    assert (stage.state("a").status, len(stage.text("large"))) == ("processed", 1_000_000)


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if os.geteuid() != 0 or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("only root may mount a small disk")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


def test_a_disk_that_really_is_full_is_survived(small_disk: Path) -> None:
    clock = Clock()
    stage = Stage(SQLiteStore(small_disk / "onward.db", clock), clock)
    stage.bring("a")
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"x" * 1_000_000)
    with pytest.raises(StoreFull, match="Free some disk space"):
        stage.store.add_documents([page("large", "x" * 1_500_000)])
    ballast.unlink()
    assert stage.store.add_documents([page("small", "x" * 100_000)]) == 1
    stage.settle(stage.take(), Processed(["a"]))
    stage.store.close()
    again = Stage(SQLiteStore(small_disk / "onward.db", clock), clock)
    assert again.store.document_counts() == {"pages": {"processed": 1, "pending": 1}}
    again.store.close()


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dialect, "BUSY_SECONDS", 0.01)


def test_a_file_that_another_program_has_locked_may_be_tried_again(
    impatient: None, stage: Stage, file: Path
) -> None:
    stage.bring("a")
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreUnavailable, match="locked by another program"):
        stage.take()
    assert stage.text("a") == "", "reading does not wait for writers"
    other.execute("ROLLBACK")
    other.close()
    assert len(stage.claim()) == 1


def test_a_locked_file_cannot_be_opened_but_is_not_called_broken(impatient: None, file: Path) -> None:
    other = sqlite3.connect(file, isolation_level=None)
    other.execute("CREATE TABLE theirs (x)")
    other.execute("BEGIN EXCLUSIVE")
    with pytest.raises(StoreUnavailable, match="Close what holds it open, or wait"):
        open_store(f"sqlite:///{file}")
    other.close()
    open_store(f"sqlite:///{file}").close()


def test_what_was_committed_is_there_after_the_process_is_gone(file: Path) -> None:
    clock = Clock()
    first = Stage(SQLiteStore(file, clock), clock)
    first.bring("a")
    delivery = first.take()
    first.store.close()
    second = Stage(SQLiteStore(file, clock), clock)
    assert second.store.claimed("anna") == [delivery]
    second.store.close()


def test_who_only_reads_does_not_wait_for_who_writes(file: Path, stage: Stage) -> None:
    """Opening an app tells the store of its services; where it knows them, nothing is to be written."""
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN IMMEDIATE")
        stage.store.subscribe(stage.store.subscriptions())
        assert stage.store.due_for_check(limit=10) == []
        other.execute("ROLLBACK")
    other.close()


def test_a_store_of_the_second_version_is_brought_up_to_date(file: Path) -> None:
    """What failed before there were failure groups is found by its fingerprint all the same."""
    steps = sorted(files("onward.ledger.sqlite").joinpath("migrations").iterdir(), key=lambda step: step.name)
    with sqlite3.connect(file) as old:
        for step in steps[:2]:
            old.executescript(step.read_text())
        old.execute("PRAGMA user_version = 2")
        error = '{"error_type": "ValueError", "message": "no", "fingerprint": "f00d", "round": 1}'
        old.execute(
            "INSERT INTO ledger (id, service, state, event_id, event_type, version, data, timestamp, key,"
            " collection, ids, round, due, tries, errors, reason, settled_at)"
            " VALUES (1, 'reading', 'dead', 'e', 'PagesFound', 1, '{}', 1.0, 'k', 'pages', '[[\"a\", 1]]', 1, 1.0,"
            " 3, ?, 'max_attempts_exceeded', 1.0)",
            [f'{{"total": 1, "first": {error}, "last": []}}'],
        )
        old.execute(
            "INSERT INTO documents (doc, collection, id, attempt_count, last_attempt_time, last_error, round,"
            " dead_letter) VALUES (1, 'pages', 'a', 1, 1.0, ?, 1, 1)",
            [error],
        )
    old.close()
    store = open_store(f"sqlite:///{file}", Clock())
    assert [one.row for one in store.find_dead_letters(fingerprint="f00d")] == [1]
    assert [one.id for one in store.find_states(fingerprint="f00d")] == ["a"]
    assert store.due_for_check(limit=10) == [("pages", "a")]
    store.close()


@pytest.mark.parametrize("replaced", (False, True), ids=("deleted", "replaced"))
def test_a_file_that_is_deleted_or_replaced_while_it_is_open_is_not_used_any_more(
    stage: Stage, file: Path, replaced: bool
) -> None:
    stage.bring("a")
    bus = stage.store.bus()
    for one in file.parent.glob("onward.db*"):
        one.unlink()
    if replaced:
        open_store(f"sqlite:///{file}").close()
    word = "replaced" if replaced else "deleted"
    for use in (stage.claim, stage.store.counts, lambda: bus.wait(10)):
        with pytest.raises(StoreGone, match=f"onward.db was {word}"):
            use()
    assert file.exists() == replaced, "it is not made anew"


def test_a_file_that_was_only_copied_over_itself_is_still_the_same(stage: Stage, file: Path) -> None:
    stage.bring("a")
    os.utime(file)
    assert stage.rows("waiting") == 1
