"""Finished works share transactions; a failing store loses none of them."""

from __future__ import annotations

import logging
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest

from onward.app import App
from onward.ledger.sqlite import dialect
from onward.ledger.store_errors import StoreFull
from onward.runtime import group_halving, outcomes
from onward.runtime.engine import Ending
from onward.runtime.work import Work
from tests.runtime.processes.stage import (
    AT_ONCE,
    Noticed,
    Observed,
    Page,
    PagesFound,
    Running,
    Word,
    bring,
    came,
    state,
    words,
)


@contextmanager
def connected(folder: Path) -> Iterator[sqlite3.Connection]:
    """The app's file, in the hands of another program."""
    file = sqlite3.connect(folder / "onward.db", isolation_level=None, check_same_thread=False)
    with closing(file):
        yield file


@contextmanager
def log_says(text: str) -> Iterator[threading.Event]:
    """A signal that comes when something is logged."""
    heard = threading.Event()

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if text in record.getMessage():
                heard.set()

    listener = Listener()
    logging.getLogger("onward").addHandler(listener)
    try:
        yield heard
    finally:
        logging.getLogger("onward").removeHandler(listener)


def refuse(folder: Path, word: str) -> None:
    """Make the database refuse one word."""
    with connected(folder) as file:
        file.execute(
            f"CREATE TRIGGER refused BEFORE INSERT ON documents WHEN NEW.id = '{word}' "
            "BEGIN SELECT RAISE(ABORT, 'this word is refused'); END"
        )


def test_only_the_work_that_fails_alone_is_charged(app: App, tmp_path: Path) -> None:
    # On the loop and without waiting, so that all three are finished before any is committed.
    @app.service("reading", on=PagesFound, finishes=Page, concurrency=3)
    async def read(page: Page, work: Work) -> None:
        work.add(Word(id=page.id))

    bring(app, "a", "poison", "b")
    refuse(tmp_path, "poison")
    app.work_until_idle()
    (letter,) = app.store.dead_letters()
    assert letter.documents == (("pages", "poison"),)
    assert "this word is refused" in letter.last_error
    assert app.store.document_counts()["pages"] == {"failed": 1, "processed": 2}
    assert words(app) == 2
    assert [state(app, id).last_error for id in "ab"] == [None, None]


def test_a_checkpoint_that_cannot_be_committed_fails_its_handler(app: App, tmp_path: Path) -> None:
    went_on = []

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.add(Word(id="poison"))
        work.checkpoint(1)
        went_on.append(page.id)

    @app.service("noticing", on=Noticed)
    async def notice(event: Noticed, work: Work) -> None:
        work.add(Word(id="poison"))
        await work.checkpoint(1)
        went_on.append(event.what)

    bring(app, "a")
    app.publish(Noticed(what="b"))
    refuse(tmp_path, "poison")
    app.work_until_idle()
    assert went_on == [], "what was not committed must not be taken as done"
    assert {one.abandoned_reason for one in app.store.dead_letters()} == {"non_retryable"}
    assert state(app, "a").status == "failed"


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A store that gives up waiting for a locked file soon."""
    monkeypatch.setattr(dialect, "BUSY_SECONDS", 0.05)


@pytest.mark.usefixtures("impatient")
def test_a_locked_file_loses_nothing_and_costs_no_try(app: App, tmp_path: Path) -> None:
    observed, begun, go_on = Observed(app), threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=2)
    def read(page: Page, work: Work) -> None:
        begun.set()
        came(go_on)
        work.add(Word(id=page.id))

    bring(app, *"abcdef")
    with log_says("Nothing is claimed until it is back") as unavailable, Running(app):
        assert came(begun)
        with connected(tmp_path) as file:
            file.execute("BEGIN IMMEDIATE")
            go_on.set()
            assert came(unavailable)
            assert observed.of(outcomes.Finished) == []
            file.execute("ROLLBACK")
        assert observed.finished(6)
    assert app.store.document_counts()["pages"] == {"processed": 6}
    assert words(app) == 6
    assert observed.of(outcomes.Retried) == []


@pytest.mark.usefixtures("impatient")
def test_a_file_that_is_locked_while_works_are_redone_singly_loses_none(
    app: App, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    observed = Observed(app)

    # On the loop and without waiting, so that all three are finished before any is committed.
    @app.service("reading", on=PagesFound, finishes=Page, concurrency=3)
    async def read(page: Page, work: Work) -> None:
        work.add(Word(id=page.id))

    bring(app, "a", "poison", "b")
    refuse(tmp_path, "poison")
    commit_first, commits = group_halving._commit_first, 0

    with connected(tmp_path) as file:

        def lock_before_the_second(*given: Any) -> bool:
            nonlocal commits
            commits += given[-1] == 1  # a work alone
            if commits == 2:
                file.execute("BEGIN IMMEDIATE")
            return commit_first(*given)

        monkeypatch.setattr(group_halving, "_commit_first", lock_before_the_second)
        with log_says("Nothing is claimed until it is back") as unavailable, Running(app):
            assert came(unavailable)
            file.execute("ROLLBACK")
            assert observed.finished(2)
            assert observed.saw(outcomes.GaveUp)
    assert app.store.document_counts()["pages"] == {"failed": 1, "processed": 2}
    assert words(app) == 2


def test_a_full_store_stops_the_engine_with_a_message_and_loses_nothing(
    app: App, new_app: Callable[[], App]
) -> None:
    def read(page: Page, work: Work) -> None:
        work.add(Word(id=page.id, text="word " * 100_000))

    app.service("reading", on=PagesFound, finishes=Page, policy=AT_ONCE)(read)
    bring(app, *"abcdef")
    writer = app.store.db._writer  # type: ignore[attr-defined]
    (pages,) = writer.execute("PRAGMA page_count").fetchone()
    writer.execute(f"PRAGMA max_page_count = {pages + 200}")
    with pytest.raises(StoreFull, match="Nothing was lost"):
        app.work_until_idle()
    app.close()

    restarted = new_app()
    restarted.service("reading", on=PagesFound, finishes=Page, policy=AT_ONCE)(read)
    restarted.store.reclaim()
    assert restarted.work_until_idle() is Ending.DRAINED
    assert restarted.store.document_counts()["pages"] == {"processed": 6}
    assert words(restarted) == 6
    assert restarted.store.dead_letters() == []
