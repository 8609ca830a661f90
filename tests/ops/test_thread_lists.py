"""Lists of threads: those of mail, and files and web pages only if they are asked for. On both databases."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import NamedTuple

import pytest

from onward.ops.queries.threads import ThreadPage, count_files, list_threads, read_summaries
from tests.support.pipeline_runs import Pipeline, mail, mbox
from tests.support.servers import PostgresServer

QUESTION = mail("1", "Where is the gauge of the harbour kept in winter?", subject="gauge")
ANSWER = mail("2", "The gauge of the harbour is in the boathouse.", subject="Re: gauge", references=["1"])


class Library(NamedTuple):
    pipeline: Pipeline
    folder: Path
    run_sql: Callable[[str], None]
    migration: Traversable  # which gives the files of an older version their key


@pytest.fixture(params=["sqlite", "postgres"])
def library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    """A folder of a mailbox, with one thread of two mails and one of one, and of three files."""
    if request.param == "postgres":
        url = request.getfixturevalue("postgres_url")
        server: PostgresServer = request.getfixturevalue("postgres_server")
        schema = url.rpartition("=")[2]
        pipeline = Pipeline(tmp_path / "home", store=url)
        migration = files("onward.ledger.postgres").joinpath("migrations", "0006_files.sql")

        def run_sql(statement: str) -> None:
            server.execute(f"SET search_path = {schema}; {statement}", "app")
    else:
        pipeline = Pipeline(tmp_path / "home")
        migration = files("onward.ledger.sqlite").joinpath("migrations", "0011_files.sql")

        def run_sql(statement: str) -> None:
            with sqlite3.connect(pipeline.file) as connection:
                connection.execute(statement)
            connection.close()

    folder = tmp_path / "harbour"
    folder.mkdir()
    (folder / "list.mbox").write_bytes(mbox(QUESTION, ANSWER, mail("3", "It is late today.", subject="ferry")))
    (folder / "gauge.md").write_text("# The gauge\n\nThe gauge is kept in the boathouse.\n")
    (folder / "ferry.txt").write_text("The ferry leaves at nine.\n")
    (folder / "map.html").write_text("<html><body><p>The map of the harbour is on the wall.</p></body></html>")
    with pipeline.running():
        pipeline.ingest(folder)
        yield Library(pipeline, folder, run_sql, migration)


def subjects(page: ThreadPage) -> list[str]:
    return sorted(one.thread.subject for one in page.threads)


def test_files_are_listed_only_if_asked_for(library: Library) -> None:
    app = library.pipeline.app
    for source in (None, str(library.folder)):
        listed = list_threads(app, source=source)
        assert (subjects(listed), listed.files, listed.more) == (["ferry", "gauge"], 3, False)
        everything = list_threads(app, source=source, files=True)
        assert (len(everything.threads), everything.files) == (5, 0)
        assert set(subjects(listed)) < set(subjects(everything))


def test_pages_of_a_list_without_files_join(library: Library) -> None:
    app = library.pipeline.app
    first = list_threads(app, limit=1)
    second = list_threads(app, limit=1, after=first.threads[-1].place)
    assert sorted(subjects(first) + subjects(second)) == ["ferry", "gauge"]
    assert (first.more, second.more) == (True, False)


def test_words_find_threads_and_count_the_files_that_have_them(library: Library) -> None:
    app = library.pipeline.app
    found = list_threads(app, words="boathouse")
    assert (subjects(found), found.files) == (["gauge"], 1)
    assert len(list_threads(app, words="boathouse", files=True).threads) == 2


def test_summaries_of_files_are_read_only_if_asked_for(library: Library) -> None:
    app = library.pipeline.app
    assert sorted(one.subject for one, _ in read_summaries(app, None, files=False)) == ["ferry", "gauge"]
    assert len(list(read_summaries(app, None, files=True))) == 5


def test_files_that_are_removed_are_not_counted(library: Library) -> None:
    (library.folder / "ferry.txt").unlink()
    library.pipeline.ingest(library.folder)
    assert count_files(library.pipeline.app, str(library.folder)) == 2


def test_files_of_an_older_version_are_known_after_an_upgrade(library: Library) -> None:
    app = library.pipeline.app
    library.run_sql("DELETE FROM keys WHERE name = 'file'")
    assert list_threads(app).files == 0
    library.run_sql(library.migration.read_text())
    listed = list_threads(app)
    assert (subjects(listed), listed.files) == (["ferry", "gauge"], 3)
