"""A kind of source lists entries; only those with another version are fetched."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from onward import Reader
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.pipeline import documents
from onward.pipeline.documents import Archive, Source, VersionPart, source_id
from onward.pipeline.fetch.fetch_errors import Refused
from onward.pipeline.source_settings import source_settings, store_settings
from onward.pipeline.sources import fetch_report
from onward.pipeline.stages import archive_changes, ingestion, stored_versions
from tests.support.pipeline_runs import Pipeline
from tests.support.shelves import Shelf, shelf_for

BOOKS = "shelf://books"


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return shelf_for(monkeypatch)


def ingest(pipeline: Pipeline) -> dict[str, int]:
    """Ingest the shelf; return the counts of the run."""
    pipeline.ingest(BOOKS)
    report = fetch_report(pipeline.app, BOOKS)
    return {} if report is None else {name: count for name, count in report.counts.items() if count}


def status(pipeline: Pipeline) -> str:
    return pipeline.status(BOOKS)


def zipped(**members: str) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as file:
        for name, text in members.items():
            file.writestr(f"{name}.txt", text)
    return packed.getvalue()


def keep(pipeline: Pipeline) -> None:
    settings = source_settings(pipeline.app, BOOKS)
    store_settings(pipeline.app, settings.model_copy(update={"on_vanished": "keep"}))


def test_only_new_and_changed_entries_are_fetched(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "The first book.")
    shelf.put("b", "The second book.")
    assert ingest(pipeline) == {"items": 2, "new": 2}
    assert shelf.taken() == ["a", "b"]
    shelf.put("b", "The second book, revised.")
    shelf.put("c", "The third book.")
    before = pipeline.times("messages")
    assert ingest(pipeline) == {"items": 3, "new": 2, "unchanged": 1}
    assert shelf.taken() == ["b", "c"]
    assert pipeline.texts() == ["The first book.", "The second book, revised.", "The third book."]
    assert len(before.items() & pipeline.times("messages").items()) == 1, "the first is as it was"
    assert ingest(pipeline) == {"items": 3, "unchanged": 3}
    assert shelf.taken() == []
    pipeline.check_at_rest()


def test_entries_that_did_not_change_cost_no_query_each(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(50):
        shelf.put(f"{number}", f"Book {number}.")
    ingest(pipeline)
    reads: list[str] = []
    fetch = SQLiteDatabase.fetch

    def counted(database: SQLiteDatabase, name: str, *values: Any) -> Any:
        reads.append(name)
        return fetch(database, name, *values)

    monkeypatch.setattr(SQLiteDatabase, "fetch", counted)
    ingest(pipeline)
    assert 0 < reads.count("bodies_by_id") < 50


def test_an_entry_without_a_version_is_fetched_in_each_run(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "A book.")
    shelf.books["a"].version = ""
    ingest(pipeline)
    assert ingest(pipeline) == {"items": 1, "unchanged": 1}
    assert shelf.taken() == ["a", "a"]


def test_a_version_that_changes_without_the_content_changes_nothing(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "A book.", "1")
    ingest(pipeline)
    before = pipeline.times("messages", "chunks", "archives")
    shelf.put("a", "A book.", "2")
    ingest(pipeline)
    ingest(pipeline)
    assert shelf.taken() == ["a", "a"], "the second version is stored"
    after = pipeline.times("messages", "chunks")
    assert after.items() <= before.items()


def test_what_is_no_longer_listed_is_removed(pipeline: Pipeline, shelf: Shelf) -> None:
    for name in ("a", "b", "a/b"):
        shelf.put(name, f"Book {name}.")
    ingest(pipeline)
    del shelf.books["a/b"]
    assert ingest(pipeline) == {"items": 2, "unchanged": 2, "removed": 1}
    assert pipeline.texts() == ["Book a.", "Book b."], "an entry is not below another one by its name"
    shelf.taken()
    shelf.put("a/b", "Book a/b.")
    ingest(pipeline)
    assert shelf.taken() == ["a/b"], "its version went with it"
    shelf.books.clear()
    ingest(pipeline)
    assert pipeline.texts() == []
    pipeline.check_at_rest()


def test_a_large_source_that_vanishes_is_not_read_as_a_whole(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_changes, "PAGE_ARCHIVES", 3)
    for number in range(10):
        shelf.put(f"{number}", f"Book {number}.")
    ingest(pipeline)
    shelf.books.clear()
    read: list[int] = []
    find_archives = documents.find_archives

    def counted(store: Reader, origins: Sequence[str]) -> Any:
        read.append(len(origins))
        return find_archives(store, origins)

    monkeypatch.setattr(archive_changes, "find_archives", counted)
    ingest(pipeline)
    assert read == [3, 3, 3, 1]
    assert pipeline.texts() == []
    pipeline.check_at_rest()


def test_a_source_that_keeps_removes_nothing(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "Book a.")
    shelf.put("z", zipped(one="Book one.", two="Book two."), name="z.zip")
    keep(pipeline)
    ingest(pipeline)
    old = shelf.books.pop("a")
    shelf.put("z", zipped(one="Book one."), name="z.zip")
    ingest(pipeline)
    assert pipeline.texts() == ["Book a.", "Book one."], "an entry that changed has lost what it no longer holds"
    shelf.taken()
    shelf.books["a"] = old
    ingest(pipeline)
    assert shelf.taken() == [], "it is still known"
    pipeline.check_at_rest()


def test_an_entry_may_be_a_container(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("z", zipped(one="Book one.", two="Book two."), name="z.zip")
    assert ingest(pipeline) == {"items": 2, "new": 2}
    assert ingest(pipeline) == {"items": 2, "unchanged": 2}
    assert shelf.taken() == ["z"]
    assert {one.path for one in pipeline.all(Archive)} == {"", "z/one.txt", "z/two.txt"}
    shelf.books.clear()
    ingest(pipeline)
    assert pipeline.texts() == []
    pipeline.check_at_rest()


def test_an_entry_that_is_passed_over_is_not_fetched_again(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "A book.")
    shelf.put("p", b"\x89PNG\r\n\x1a\n" + bytes(100), name="p.png")
    ingest(pipeline)
    ingest(pipeline)
    assert shelf.taken() == ["a", "p"]
    report = fetch_report(pipeline.app, BOOKS)
    assert report is not None
    assert report.passed_over == {"picture": 1}, "it is still reported"


def test_an_unreadable_entry_does_not_fail_its_source(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "Book a.")
    shelf.put("b", "Book b.")
    shelf.books["a"].fails = Refused("it is locked", 403)
    assert ingest(pipeline) == {"items": 2, "new": 1, "failed": 1}
    assert status(pipeline) == "partially_completed"
    (failed,) = [one for one in pipeline.world.store.states(Archive) if one.status == "failed"]
    assert failed.last_error is not None
    assert "it is locked" in failed.last_error["message"]
    shelf.books["a"].fails = None
    ingest(pipeline)
    assert pipeline.texts() == ["Book a.", "Book b."]
    assert status(pipeline) == "completed"
    assert shelf.taken() == ["a", "a", "b"]
    pipeline.check_at_rest()


@pytest.mark.parametrize("when", ("listed", "fetched"))
def test_a_half_failed_run_keeps_the_good_version(pipeline: Pipeline, shelf: Shelf, when: str) -> None:
    """Reported for other systems: the old version was deleted before the new one could be read."""
    shelf.put("a", "The good version.")
    ingest(pipeline)
    shelf.put("a", "Another version.")
    error = ConnectionError("the shelf fell down")
    if when == "listed":
        shelf.books["a"].problem = error
    else:
        shelf.books["a"].fails = error
    assert ingest(pipeline) == {"items": 1, "unchanged": 1, "failed": 1}
    assert pipeline.texts() == ["The good version."]
    report = fetch_report(pipeline.app, BOOKS)
    assert report is not None
    assert [(one.path, one.reason) for one in report.problems] == [("a", "ConnectionError: the shelf fell down")]
    shelf.put("a", "Another version.")
    ingest(pipeline)
    assert pipeline.texts() == ["Another version."]
    pipeline.check_at_rest()


def test_a_part_of_an_entry_that_cannot_be_stored_now_is_fetched_again(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    shelf.put("z", zipped(one="Book one.", two="Book two."), name="z.zip")
    blobs, put, puts = type(pipeline.app.blobs), pipeline.app.blobs.put, []

    def put_first(_: Any, write: Any) -> Any:
        puts.append(write)
        if len(puts) > 1:
            raise ConnectionError("the place of the blobs is away")
        return put(write)

    with monkeypatch.context() as patch:
        patch.setattr(blobs, "put", put_first)
        ingest(pipeline)
    assert pipeline.texts() == ["Book one."]
    ingest(pipeline)
    assert pipeline.texts() == ["Book one.", "Book two."]
    assert status(pipeline) == "completed"


def test_two_entries_with_one_path_do_not_fail_their_source(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a\\xff", "The one of this name.")
    shelf.put("a\udcff", "Bytes that are written like it.")
    shelf.put("b", "Another.")
    for _ in range(2):
        ingest(pipeline)
        report = fetch_report(pipeline.app, BOOKS)
        assert report is not None
        assert report.passed_over == {"duplicate": 1}
        assert [item.path for item in report.passed_over_items] == ["a\\xff"]
        assert pipeline.texts() == ["Another.", "The one of this name."]


def test_what_may_be_below_an_entry_with_a_problem_is_kept(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a/b", "Book a/b.")
    ingest(pipeline)
    shelf.books.clear()
    shelf.put("a", "")
    shelf.books["a"].problem = ConnectionError("the shelf fell down")
    ingest(pipeline)
    assert pipeline.texts() == ["Book a/b."]
    shelf.books.clear()
    ingest(pipeline)
    assert pipeline.texts() == []
    pipeline.check_at_rest()


def test_if_the_listing_fails_nothing_is_removed(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "Book a.")
    shelf.put("b", "Book b.")
    ingest(pipeline)
    del shelf.books["a"]
    shelf.fails = ConnectionError("the shelf fell down")
    pipeline.ingest(BOOKS)
    assert pipeline.texts() == ["Book a.", "Book b."]


def test_what_failed_is_not_skipped_because_its_version_matches(pipeline: Pipeline, shelf: Shelf) -> None:
    """Reported for other systems: what failed once was never tried again, as long as it did not change."""
    shelf.put("a", "A book.")
    pipeline.submit(BOOKS)
    pipeline.run("ingestion")
    (blob,) = (pipeline.home / "blobs").glob("??/*")
    content = blob.read_bytes()
    blob.unlink()
    pipeline.run()
    assert status(pipeline) == "failed"
    blob.write_bytes(content)
    ingest(pipeline)
    assert shelf.taken() == ["a"]
    assert status(pipeline) == "completed"
    assert pipeline.texts() == ["A book."]


def test_an_entry_whose_archives_are_gone_is_fetched_again(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "A book.")
    ingest(pipeline)
    (archive,) = [one for one in pipeline.all(Archive) if one.path == "a"]
    pipeline.app.store.remove_documents([("archives", archive.id)])
    ingest(pipeline)
    assert shelf.taken() == ["a", "a"]
    assert pipeline.texts() == ["A book."]


@pytest.mark.parametrize("after", range(1, 6))
def test_a_killed_run_goes_on_where_it_was(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    shelf.put("gone", "It is removed.")
    ingest(pipeline)
    shelf.taken()
    del shelf.books["gone"]
    names = ["a", "b", "c", "d"]
    for name in names:
        shelf.put(name, f"Book {name}.")
    pipeline.submit(BOOKS)
    with pipeline.crashing_after_checkpoint(after):
        pipeline.run("ingestion")
    pipeline.run()
    assert shelf.taken() == names, "nothing is fetched twice"
    assert pipeline.texts() == [f"Book {name}." for name in names]
    pipeline.check_at_rest()


def test_a_long_run_is_divided_into_deliveries_and_uses_up_no_round(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "DELIVERY_SECONDS", 0.0)
    names = [f"book {number}" for number in range(10)]
    for name in names:
        shelf.put(name, f"This is {name}.")
    pipeline.submit(BOOKS)
    deliveries = pipeline.run("ingestion", within=60.0)
    assert deliveries >= len(names)
    assert shelf.taken() == names, "nothing is fetched twice"
    pipeline.run()
    assert pipeline.texts() == [f"This is {name}." for name in names]
    request = pipeline.app.state(Archive, source_id(BOOKS))
    assert request is not None
    assert (request.status, request.attempt_count) == ("processed", 1)
    pipeline.check_at_rest()


def test_overlapping_runs_store_nothing_twice(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Reported for other systems: overlapping fetches of a mailbox consumed each mail twice."""
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    for name in ("a", "b", "c"):
        shelf.put(name, f"Book {name}.")
    pipeline.submit(BOOKS)
    submitted: list[str] = []

    def submit_again(path: str) -> None:
        if path == "b" and not submitted:
            submitted.append(path)
            pipeline.submit(BOOKS)
            pipeline.run("ingestion")  # another worker, to its end

    shelf.at_fetch = submit_again
    pipeline.run("ingestion")
    pipeline.run()
    assert shelf.taken() == ["a", "b", "b", "c"], "b was being fetched, and not committed"
    assert pipeline.texts() == ["Book a.", "Book b.", "Book c."]
    pipeline.check_at_rest()


def test_an_older_run_does_not_bring_back_an_older_version(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    shelf.put("a", "The old text.", "1")
    pipeline.submit(BOOKS)

    def change(path: str) -> None:
        shelf.at_fetch = lambda path: None
        shelf.put("a", "The new text.", "2")
        pipeline.ingest(BOOKS)

    shelf.at_fetch = change
    pipeline.run()
    assert pipeline.texts() == ["The new text."]
    ingest(pipeline)
    assert pipeline.texts() == ["The new text."]
    pipeline.check_at_rest()


def test_a_source_that_is_forgotten_during_a_run_leaves_nothing(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    for name in ("a", "b", "c"):
        shelf.put(name, f"Book {name}.")
    keep(pipeline)
    pipeline.submit(BOOKS)
    shelf.at_fetch = lambda path: path == "b" and pipeline.forget(BOOKS)
    pipeline.run()
    assert pipeline.ask("SELECT collection, id FROM documents") == []
    shelf.at_fetch = lambda path: None
    shelf.taken()
    ingest(pipeline)
    assert shelf.taken() == ["a", "b", "c"]
    pipeline.check_at_rest()


def test_forgetting_removes_settings_and_versions(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "A book.")
    keep(pipeline)
    ingest(pipeline)
    assert pipeline.all(Source)
    assert pipeline.all(VersionPart)
    pipeline.forget(BOOKS)
    assert pipeline.ask("SELECT collection, id FROM documents") == []


def test_a_run_ends_when_its_worker_stops(pipeline: Pipeline, shelf: Shelf) -> None:
    for name in ("a", "b", "c"):
        shelf.put(name, f"Book {name}.")

    def stop(path: str) -> None:
        if path == "b":
            for supervisor in pipeline.world._supervisors:
                for child in supervisor.children:
                    child.process.engine.drain()  # type: ignore[attr-defined]

    shelf.at_fetch = stop
    pipeline.submit(BOOKS)
    pipeline.run("ingestion")
    assert shelf.taken() == ["a", "b"]
    shelf.at_fetch = lambda path: None
    pipeline.run(within=60.0)
    assert shelf.taken() == ["c"]
    assert len(pipeline.texts()) == 3
    pipeline.check_at_rest()


def test_parts_of_versions_are_merged(pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    monkeypatch.setattr(stored_versions, "MAX_UNMERGED_PARTS", 3)
    monkeypatch.setattr(stored_versions, "MERGED_BYTES", 150)
    for number in range(6):
        shelf.put(f"{number}", f"Book {number}.")
    ingest(pipeline)
    parts = pipeline.all(VersionPart)
    assert {one.merged for one in parts} == {True}
    assert 1 < len(parts) < 6
    del shelf.books["3"]
    ingest(pipeline)
    ingest(pipeline)
    assert len(shelf.taken()) == 6
    assert len(pipeline.texts()) == 5


@pytest.mark.parametrize("after", range(2, 14, 2))
def test_a_merge_that_is_interrupted_brings_nothing_back(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch, after: int
) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    monkeypatch.setattr(stored_versions, "MERGED_BYTES", 60)
    monkeypatch.setattr(stored_versions, "_REMOVE_PARTS", 1)
    for name in ("a", "b", "c"):
        shelf.put(name, f"Book {name}.")
    ingest(pipeline)
    gone = shelf.books.pop("a")
    ingest(pipeline)
    monkeypatch.setattr(stored_versions, "MAX_UNMERGED_PARTS", 0)
    pipeline.submit(BOOKS)
    with pipeline.crashing_after_checkpoint(after, surely=False):
        pipeline.run("ingestion")
    shelf.taken()
    shelf.books["a"] = gone
    pipeline.run()
    ingest(pipeline)
    assert shelf.taken() == ["a"]
    assert pipeline.texts() == ["Book a.", "Book b.", "Book c."]


def test_if_everything_fails_in_a_row_the_run_fails(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "MAX_TRANSIENT_FAILURES", 2)
    for number in range(9):
        shelf.put(f"{number}", f"Book {number}.")
        shelf.books[f"{number}"].fails = ConnectionError("the connection was closed")
    pipeline.submit(BOOKS)
    pipeline.run("ingestion")
    assert len(shelf.taken()) == 3
    for book in shelf.books.values():
        book.fails = None
    pipeline.run(within=60.0)
    assert len(pipeline.texts()) == 9
    assert status(pipeline) == "completed"


def test_a_server_that_breaks_off_again_and_again_uses_up_no_try(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingestion, "MAX_TRANSIENT_FAILURES", 0)
    names = [f"book {number}" for number in range(8)]
    for name in names:
        shelf.put(name, f"This is {name}.")
    fetches: list[str] = []

    def break_off(path: str) -> None:
        fetches.append(path)
        if len(fetches) % 2 == 0:  # the connection that it is made with has one book in it
            raise ConnectionError("the server closed the connection")

    shelf.at_fetch = break_off
    pipeline.submit(BOOKS)
    pipeline.run(within=600.0)
    assert pipeline.texts() == [f"This is {name}." for name in names]
    request = pipeline.app.state(Archive, source_id(BOOKS))
    assert request is not None
    assert (request.status, request.attempt_count) == ("processed", 1)


def test_a_server_that_breaks_off_at_the_same_place_uses_up_the_tries(pipeline: Pipeline, shelf: Shelf) -> None:
    shelf.put("a", "A book that has no version.")
    shelf.books["a"].version = ""
    shelf.fails = ConnectionError("the server closed the connection")
    pipeline.submit(BOOKS)
    pipeline.run(within=60.0)
    assert len(shelf.taken()) == 1 + pipeline.app.settings.max_retries
    state = pipeline.app.state(Archive, source_id(BOOKS))
    assert state is not None
    assert state.last_error is not None


def test_options_are_kept_for_the_next_run(pipeline: Pipeline, shelf: Shelf) -> None:
    from onward.pipeline.sources import submit

    shelf.put("a", "A book.")
    submit(pipeline.app, "shelf://Books/", {"depth": "3"})
    pipeline.run()
    assert shelf.options == {"depth": "3", "only": ""}
    submit(pipeline.app, BOOKS, {"only": "x"})
    pipeline.run()
    assert shelf.options == {"depth": "3", "only": "x"}
    ingest(pipeline)
    assert shelf.options == {"depth": "3", "only": "x"}


@pytest.mark.parametrize(
    ("options", "says"),
    (
        (
            {"width": "3"},
            "Shelf has no option 'width'; with their defaults, they are: depth (1), only (empty)",
        ),
        ({"depth": "deep"}, "the option depth='deep' is refused: give a number, such as 3"),
    ),
)
def test_a_wrong_option_says_what_is_allowed(
    pipeline: Pipeline, shelf: Shelf, options: dict[str, str], says: str
) -> None:
    from onward.pipeline.source_settings import WrongOption
    from onward.pipeline.sources import submit

    with pytest.raises(WrongOption) as refused:
        submit(pipeline.app, BOOKS, options)
    assert str(refused.value) == says
    assert pipeline.ask("SELECT * FROM documents") == []


def test_a_folder_has_no_options(pipeline: Pipeline, folder: Path) -> None:
    from onward.pipeline.source_settings import WrongOption
    from onward.pipeline.sources import submit

    with pytest.raises(WrongOption, match="File or folder has no option 'depth'"):
        submit(pipeline.app, str(folder), {"depth": "3"})
