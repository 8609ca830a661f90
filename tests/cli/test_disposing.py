"""`onward documents export | archive | discard | purge` take documents along, or let go of them."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from onward import DocumentState
from onward.ledger.store import Store
from onward.model.ledger import NewDocument
from onward.pipeline.documents import Archive, origin_of
from tests.support.command_runs import onward
from tests.support.failed_pages import SOURCE, fail, failure, finish, stage
from tests.support.store_pages import word


@pytest.fixture
def pages(home: Path) -> Path:
    """Three pages that failed, one of them with a word made from it, and one that was processed."""
    with stage(home) as on:
        fail(on, "aaaa-1", "aaaa-2", message="it broke: password=tinder")
        fail(on, "bbbb-1", fingerprint="cafe9999")
        finish(on, "cccc-1")
        on.store.add_documents([word("wwww-1", parent="pages/aaaa-1", source=SOURCE)])
    return home


def documents(home: Path, *args: str) -> str:
    result = onward(home, "documents", *args)
    assert result.exit_code == 0, result.output
    return result.stdout


def ids(home: Path) -> list[str]:
    return [json.loads(line)["id"] for line in documents(home, "list", "--json").splitlines()]


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


# -- export


def test_an_export_has_body_state_errors_and_dead_letter(pages: Path) -> None:
    (one,) = lines(documents(pages, "export", "--group", "cafe9999"))
    assert (one["collection"], one["id"], one["status"]) == ("pages", "bbbb-1", "failed")
    assert one["body"] == {"id": "bbbb-1", "text": "text of bbbb-1"}
    assert [error["message"] for error in one["errors"]] == ["it broke"]
    assert one["dead_letter"]["original_event"]["event_type"] == "PagesFound"
    assert one["dead_letter"]["abandoned_reason"] == "max_attempts_exceeded"


def test_an_archived_letter_is_exported_with_its_document(pages: Path) -> None:
    with stage(pages) as on:
        letters = on.store.find_dead_letters(document=("pages", "aaaa-2"))
        on.store.archive_dead_letters([one.row for one in letters])
    found = lines(documents(pages, "export", "--group", "f00d1234"))
    named = [one["dead_letter"]["original_event"]["data"]["page_ids"] for one in found]
    assert named == [["aaaa-1"], ["aaaa-2"]]


def test_a_dash_is_standard_output(pages: Path) -> None:
    assert documents(pages, "export", "--output", "-") == documents(pages, "export")


def test_without_filters_everything_is_exported_to_a_file(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    result = onward(pages, "documents", "export", "--output", str(file))
    assert (result.exit_code, result.stdout) == (0, "")
    assert "5 documents exported to" in result.stderr
    found = lines(file.read_text())
    assert [one["id"] for one in found] == ["aaaa-1", "aaaa-2", "bbbb-1", "cccc-1", "wwww-1"]
    assert "tinder" not in json.dumps(found[0]["errors"])
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".part"] == []


def test_a_file_that_is_there_is_not_overwritten(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    file.write_text("precious")
    result = onward(pages, "documents", "archive", "--status", "failed", "--output", str(file))
    assert result.exit_code == 2
    assert "exists; name another file" in " ".join(result.stderr.split())
    assert (file.read_text(), len(ids(pages))) == ("precious", 5)


# -- archive


def test_what_is_archived_is_in_the_file_and_gone(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "failed.ndjson.gz"
    text = documents(pages, "archive", "--group", "f00d1234", "--output", str(file))
    assert "3 documents exported to" in text
    assert "3 removed." in text
    assert "ingest their source again: onward ingest SOURCE" in text
    found = lines(gzip.decompress(file.read_bytes()).decode())
    assert [one["id"] for one in found] == ["aaaa-1", "aaaa-2", "wwww-1"], "with what was made from them"
    assert ids(pages) == ["bbbb-1", "cccc-1"]
    with stage(pages) as on:
        (action,) = on.store.actions()
    assert (action.action, action.touched) == ("documents archive", 3)
    assert action.about == {"group": "f00d1234", "output": str(file)}


def test_a_dry_run_of_archiving_writes_nothing(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "failed.ndjson"
    text = documents(pages, "archive", "--source", SOURCE, "--output", str(file), "--dry-run")
    assert text == "4 documents would be archived: 3 pages, 1 words\n"
    assert (file.exists(), len(ids(pages))) == (False, 5)


def test_where_the_file_cannot_be_written_nothing_is_removed(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "failed.ndjson"
    result = onward(pages, "documents", "archive", "--status", "failed", "--output", str(file))
    assert result.exit_code == 1
    assert "cannot be written: No such file or directory. Nothing was exported or removed" in result.stderr
    assert len(ids(pages)) == 5


# -- discard


def test_discarded_documents_are_kept(pages: Path) -> None:
    assert documents(pages, "discard", "--collection", "pages", "--dry-run") == (
        "3 documents would be discarded: 3 pages\n"
    )
    refused = onward(pages, "documents", "discard", "--collection", "pages")
    assert refused.exit_code == 2
    assert "this gives up 3 documents for good; add --confirm" in " ".join(refused.stderr.split())
    assert documents(pages, "discard", "--collection", "pages", "--confirm") == "3 documents discarded: 3 pages\n"
    with stage(pages) as on:
        assert [one.id for one in on.store.find_states(status="discarded")] == ["aaaa-1", "aaaa-2", "bbbb-1"]
        assert on.rows("dead") == 0
        assert [(one.action, one.touched) for one in on.store.actions()] == [("documents discard", 3)]


# -- purge


def test_purging_needs_a_yes(pages: Path) -> None:
    refused = onward(pages, "documents", "purge", "--status", "failed")
    assert refused.exit_code == 2
    assert "this removes 4 documents for ever; add --confirm" in " ".join(refused.stderr.split())
    assert documents(pages, "purge", "--status", "failed", "--dry-run") == (
        "4 documents would be removed: 3 pages, 1 words\n"
    )
    assert len(ids(pages)) == 5
    told = json.loads(documents(pages, "purge", "--status", "failed", "--confirm", "--json"))
    assert told == {
        "dry_run": False,
        "documents": 4,
        "collections": {"pages": 3, "words": 1},
        "left_alone": {},
        "interrupted": False,
    }
    assert ids(pages) == ["cccc-1"]
    with stage(pages) as on:
        assert [(one.action, one.touched) for one in on.store.actions()] == [("documents purge", 4)]


def test_without_a_status_only_what_was_given_up_is_purged(pages: Path) -> None:
    documents(pages, "purge", "--source", SOURCE, "--confirm")
    assert ids(pages) == ["cccc-1"]


def test_what_changed_lately_is_spared(pages: Path) -> None:
    assert documents(pages, "purge", "--older-than", "1h", "--confirm") == "No such documents.\n"
    documents(pages, "purge", "--older-than", "0s", "--confirm")
    assert ids(pages) == ["cccc-1"]


# -- what cannot go alone


@pytest.fixture
def archives(home: Path) -> Path:
    """Given up: a source, an archive that brought a message, one that brought none, and one that is gone."""

    def archive(id: str, path: str = "", origin: str = "") -> NewDocument:
        found = Archive(id=id, source=SOURCE, source_id="source-1", path=path, origin=origin)
        return NewDocument("archives", id, found.to_json(), source=SOURCE, failure=failure("it broke", "f00d1234"))

    full, gone = origin_of(SOURCE, "full"), origin_of(SOURCE, "gone")
    with stage(home) as on:
        on.store.add_documents(
            [
                archive("source-1"),
                archive("empty-1", "empty", origin_of(SOURCE, "empty")),
                archive("full-1", "full", full),
                archive("gone-1", "gone"),
                *(
                    NewDocument("messages", f"mail-{place}", "{}", source=SOURCE, keys=[("origin", place)])
                    for place in (full, gone)
                ),
                NewDocument("messages", "mail-3", "{}", source=SOURCE, keys=[("thread_id", "thread-1")]),
                *(
                    NewDocument("threads", f"thread-{n}", "{}", source=SOURCE, failure=failure("no", "f00d1234"))
                    for n in (1, 2, 3)
                ),
                NewDocument("summaries", "thread-2", "{}", source=SOURCE),
            ]
        )
    return home


@pytest.mark.parametrize("dry_run", (True, False))
def test_what_others_belong_to_stays_and_the_rest_goes(archives: Path, dry_run: bool) -> None:
    result = onward(
        archives, "documents", "purge", "--source", SOURCE, "--confirm", *(["--dry-run"] if dry_run else [])
    )
    would = "would be " if dry_run else ""
    assert result.stdout == (
        f"2 documents {would}removed: 1 archives, 1 threads\n"
        "3 archives, 2 threads cannot be removed alone: what came from there would stay behind. "
        "To remove an archive with its messages: onward forget SOURCE\n"
    )
    assert result.exit_code == (0 if dry_run else 3)
    assert {"empty-1", "thread-3"} - set(ids(archives)) == (set() if dry_run else {"empty-1", "thread-3"})
    assert {"source-1", "full-1", "gone-1", "thread-1", "thread-2"} <= set(ids(archives))


def test_archiving_leaves_the_same_alone(archives: Path, tmp_path: Path) -> None:
    file = tmp_path / "failed.ndjson"
    result = onward(archives, "documents", "archive", "--status", "failed", "--output", str(file), "--json")
    assert result.exit_code == 3
    facts = json.loads(result.stdout)
    assert (facts["removed"], facts["left_alone"]) == (2, {"archives": 3, "threads": 2})
    assert {one["id"] for one in lines(file.read_text())} == {"empty-1", "thread-3"}


@pytest.mark.parametrize("collection", ("archives", "threads"))
def test_nothing_but_what_must_stay_is_refused(library: Path, collection: str) -> None:
    chosen = ("--collection", collection, "--status", "processed")
    result = onward(library, "documents", "purge", *chosen, "--confirm")
    assert result.exit_code == 2
    assert f"{collection} cannot be removed alone" in " ".join(result.stderr.split())
    assert "onward forget SOURCE" in result.stderr
    assert documents(library, "list", *chosen, "--json")


# -- two at once


@pytest.mark.parametrize("command", ("discard", "purge"))
def test_what_somebody_else_changes_meanwhile_is_not_counted(
    pages: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    real = Store.find_states
    changed: list[bool] = []

    def find_states(self: Store, **how: Any) -> list[DocumentState]:
        found = real(self, **how)
        if not found and not changed:  # all are chosen, and none is changed yet
            with stage(pages) as on:
                changed.append(on.store.discard("pages", "bbbb-1"))
        return found

    monkeypatch.setattr(Store, "find_states", find_states)
    text = documents(pages, command, "--collection", "pages", "--status", "failed", "--confirm")
    assert changed == [True]
    assert "\n1 document changed meanwhile, and left alone\n" in text
    with stage(pages) as on:
        (action,) = on.store.actions()
    assert action.touched == (2 if command == "discard" else 3), "with the word"


@pytest.mark.parametrize(
    ("args", "problem"),
    (
        (("purge", "--confirm"), "say which documents: --status, --collection, --source, --group or --older-than"),
        (("discard",), "say which documents"),
        (("archive", "--output", "x.ndjson"), "say which documents"),
        (("archive", "--status", "failed"), "Missing option '--output'"),
        (("archive", "--status", "processed", "--output", "x.ndjson"), "only what was given up is archived"),
        (("discard", "--status", "processed"), "what is processed is final: there is nothing to give up"),
        (("purge", "--collection", "books"), "'books' has no documents; there are: pages, words"),
        (("purge", "--older-than", "soon"), "'soon' is no span; give a span such as 90s"),
        (("--status", "failed", "purge"), "give options after `purge`"),
        (("purge", "--group", "", "--confirm"), "--group is empty: give a fingerprint"),
        (("discard", "--source", " ", "--confirm"), "--source is empty: give a source"),
        (("export", "--collection", ""), "--collection is empty: give the name of a collection"),
        (("list", "--source", ""), "--source is empty: give a source"),
        (("list", "--collection", ""), "--collection is empty"),
        (("list", "--limit", "9" * 20), "is not in the range"),
        (("export", "--output", ""), "--output is empty: give the name of a new file"),
        (("archive", "--status", "failed", "--output", ""), "--output is empty"),
        (("archive", "--status", "failed", "--output", "-"), "goes to a file, which is safe before"),
    ),
)
def test_wrong_usage_is_told(pages: Path, args: tuple[str, ...], problem: str) -> None:
    result = onward(pages, "documents", *args)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())
    assert len(ids(pages)) == 5
