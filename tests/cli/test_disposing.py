"""`onward documents export | archive | discard | purge`: documents are written to a file, given up or removed."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import scenes
from tests.support.command_runs import onward
from tests.support.console_client import pipeline
from tests.support.failed_pages import SOURCE, stage


@pytest.fixture
def pages(home: Path) -> Path:
    scenes.failed_documents(home)
    return home


def documents(home: Path, *args: str) -> str:
    result = onward(home, "documents", *args)
    assert result.exit_code == 0, result.output
    return result.stdout


def facts(home: Path, *args: str, code: int = 0) -> Any:
    result = onward(home, "documents", *args, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


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


def test_an_archived_dead_letter_is_exported_with_its_document(pages: Path) -> None:
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
    result = onward(pages, "documents", "export", "--output", str(file), more={"COLUMNS": "300"})
    assert (result.exit_code, result.stdout) == (0, "")
    assert str(file) in result.stderr
    found = lines(file.read_text())
    assert [one["id"] for one in found] == ["aaaa-1", "aaaa-2", "bbbb-1", "cccc-1", "wwww-1"]
    assert "tinder" not in json.dumps(found[0]["errors"])
    assert [one.name for one in tmp_path.iterdir() if one.suffix == ".part"] == []


def test_a_file_that_is_there_is_not_overwritten(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "all.ndjson"
    file.write_text("precious")
    result = onward(pages, "documents", "archive", "--status", "failed", "--output", str(file))
    assert result.exit_code == 2
    assert "exists" in result.stderr
    assert (file.read_text(), len(ids(pages))) == ("precious", 5)


# -- archive


def test_what_is_archived_is_in_the_file_and_gone(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "failed.ndjson.gz"
    assert facts(pages, "archive", "--group", "f00d1234", "--output", str(file)) == {
        "dry_run": False,
        "output": str(file),
        "exported": 3,
        "removed": 3,
        "left_alone": {},
        "interrupted": False,
    }
    found = lines(gzip.decompress(file.read_bytes()).decode())
    assert [one["id"] for one in found] == ["aaaa-1", "aaaa-2", "wwww-1"], "with what was made from them"
    assert ids(pages) == ["bbbb-1", "cccc-1"]
    with stage(pages) as on:
        (action,) = on.store.actions()
    assert (action.action, action.touched) == ("documents archive", 3)
    assert action.about == {"group": "f00d1234", "output": str(file)}


def test_a_dry_run_of_archiving_writes_nothing(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "failed.ndjson"
    found = facts(pages, "archive", "--source", SOURCE, "--output", str(file), "--dry-run")
    assert (found["dry_run"], found["documents"], found["collections"]) == (True, 4, {"pages": 3, "words": 1})
    assert (file.exists(), len(ids(pages))) == (False, 5)


def test_where_the_file_cannot_be_written_nothing_is_removed(pages: Path, tmp_path: Path) -> None:
    file = tmp_path / "nowhere" / "failed.ndjson"
    result = onward(pages, "documents", "archive", "--status", "failed", "--output", str(file))
    assert result.exit_code == 1
    assert "No such file or directory" in result.stderr
    assert len(ids(pages)) == 5


# -- discard


def test_discarded_documents_are_kept(pages: Path) -> None:
    dry = facts(pages, "discard", "--collection", "pages", "--dry-run")
    assert (dry["dry_run"], dry["documents"], dry["collections"]) == (True, 3, {"pages": 3})
    refused = onward(pages, "documents", "discard", "--collection", "pages")
    assert refused.exit_code == 2
    assert "3 documents" in refused.stderr
    assert "--confirm" in refused.stderr
    done = facts(pages, "discard", "--collection", "pages", "--confirm")
    assert (done["dry_run"], done["documents"], done["collections"]) == (False, 3, {"pages": 3})
    with stage(pages) as on:
        assert [one.id for one in on.store.find_states(status="discarded")] == ["aaaa-1", "aaaa-2", "bbbb-1"]
        assert on.rows("dead") == 0
        assert [(one.action, one.touched) for one in on.store.actions()] == [("documents discard", 3)]


# -- purge


def test_purging_needs_a_confirmation(pages: Path) -> None:
    refused = onward(pages, "documents", "purge", "--status", "failed")
    assert refused.exit_code == 2
    assert "4 documents" in refused.stderr
    assert "--confirm" in refused.stderr
    counts = {"documents": 4, "collections": {"pages": 3, "words": 1}, "left_alone": {}, "interrupted": False}
    assert facts(pages, "purge", "--status", "failed", "--dry-run") == {"dry_run": True, **counts}
    assert len(ids(pages)) == 5
    assert facts(pages, "purge", "--status", "failed", "--confirm") == {"dry_run": False, **counts}
    assert ids(pages) == ["cccc-1"]
    with stage(pages) as on:
        assert [(one.action, one.touched) for one in on.store.actions()] == [("documents purge", 4)]


def test_without_a_status_only_what_was_given_up_is_purged(pages: Path) -> None:
    documents(pages, "purge", "--source", SOURCE, "--confirm")
    assert ids(pages) == ["cccc-1"]


def test_what_changed_lately_is_spared(pages: Path) -> None:
    assert facts(pages, "purge", "--older-than", "1h", "--confirm")["documents"] == 0
    documents(pages, "purge", "--older-than", "0s", "--confirm")
    assert ids(pages) == ["cccc-1"]


# -- what cannot go alone


@pytest.fixture
def archives(home: Path) -> Path:
    scenes.archives_with_messages(home)
    return home


@pytest.mark.parametrize("dry_run", (True, False))
def test_what_others_belong_to_stays_and_the_rest_goes(archives: Path, dry_run: bool) -> None:
    args = ("purge", "--source", SOURCE, "--confirm", *(["--dry-run"] if dry_run else []))
    assert facts(archives, *args, code=0 if dry_run else 3) == {
        "dry_run": dry_run,
        "documents": 2,
        "collections": {"archives": 1, "threads": 1},
        "left_alone": {"archives": 3, "threads": 2},
        "interrupted": False,
    }
    assert {"empty-1", "thread-3"} - set(ids(archives)) == (set() if dry_run else {"empty-1", "thread-3"})
    assert {"source-1", "full-1", "gone-1", "thread-1", "thread-2"} <= set(ids(archives))


def test_archiving_leaves_the_same_alone(archives: Path, tmp_path: Path) -> None:
    file = tmp_path / "failed.ndjson"
    found = facts(archives, "archive", "--status", "failed", "--output", str(file), code=3)
    assert (found["removed"], found["left_alone"]) == (2, {"archives": 3, "threads": 2})
    assert {one["id"] for one in lines(file.read_text())} == {"empty-1", "thread-3"}


@pytest.mark.parametrize("collection", ("archives", "threads"))
def test_nothing_but_what_must_stay_is_refused(library: Path, collection: str) -> None:
    chosen = ("--collection", collection, "--status", "processed")
    result = onward(library, "documents", "purge", *chosen, "--confirm")
    assert result.exit_code == 2
    assert f" {collection} " in result.stderr
    assert "onward forget SOURCE" in result.stderr
    assert documents(library, "list", *chosen, "--json")


# -- sources that never brought anything


@pytest.fixture
def unfetched(home: Path) -> Path:
    """Three URLs whose fetch has failed for good, and a text that was read."""
    from onward.ops.submissions import submit_text
    from onward.pipeline.sources import submit

    app = pipeline(home)
    for name in ("a", "b", "c"):
        submit(app, f"http://127.0.0.1:9/{name}")  # a private address: refused
    submit(app, "http://127.0.0.1:9/c")  # once more: two tasks
    submit_text(app, "This was read.", "note.txt")
    app.work_until_idle()
    app.close()
    return home


def test_archives_that_never_had_content_are_purged_in_bulk(unfetched: Path) -> None:
    chosen = ("--collection", "archives", "--status", "failed")
    removed = {"archives": 3, "tasks": 4}
    before = ids(unfetched)
    plan = facts(unfetched, "purge", *chosen, "--dry-run")
    assert (plan["documents"], plan["collections"], plan["left_alone"]) == (7, removed, {})
    assert ids(unfetched) == before
    done = facts(unfetched, "purge", *chosen, "--confirm")
    assert done == plan | {"dry_run": False}
    left = lines(documents(unfetched, "list", "--json"))
    assert not [one for one in left if "127.0.0.1" in one["source"]]
    assert "messages" in {one["collection"] for one in left}, "what was read stays"
    assert facts(unfetched, "purge", *chosen, "--confirm")["documents"] == 0


def test_archives_that_never_had_content_are_archived_in_bulk(unfetched: Path, tmp_path: Path) -> None:
    file = tmp_path / "unfetched.ndjson"
    found = facts(unfetched, "archive", "--status", "failed", "--output", str(file))
    assert (found["exported"], found["removed"], found["left_alone"]) == (7, 7, {})
    written = lines(file.read_text())
    assert [one["lastError"]["error_type"] for one in written if one["collection"] == "archives"] == [
        "PrivateAddress"
    ] * 3


# -- two at once


@pytest.mark.parametrize("command", ("discard", "purge"))
def test_what_somebody_else_changes_meanwhile_is_not_counted(
    pages: Path, monkeypatch: pytest.MonkeyPatch, command: str
) -> None:
    changed = scenes.change_while_chosen(pages, monkeypatch)
    found = facts(pages, command, "--collection", "pages", "--status", "failed", "--confirm")
    assert changed == [True]
    assert found["documents"] == (2 if command == "discard" else 3)  # with the word
    assert found["collections"] == ({"pages": 2} if command == "discard" else {"pages": 3, "words": 1})
    with stage(pages) as on:
        (action,) = on.store.actions()
    assert action.touched == found["documents"]


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
def test_wrong_usage_is_refused(pages: Path, args: tuple[str, ...], problem: str) -> None:
    result = onward(pages, "documents", *args)
    assert result.exit_code == 2
    assert problem in " ".join(result.stderr.split())
    assert len(ids(pages)) == 5
