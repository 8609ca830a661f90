"""`onward watch` and `onward sources` say which sources are ingested again, and when."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from onward.backend_urls import open_store
from onward.cli.ingest_run import _describe
from onward.ops.queries.ingestion_report import DamagedMessages, IngestionReport, SkippedFiles, attachment_lines
from tests.support.command_runs import onward, onward_process


@pytest.fixture
def place(tmp_path: Path) -> Path:
    for name in ("notes", "more"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "a.txt").write_text(f"A text of {name}.")
    return tmp_path


def run(place: Path, *arguments: str, code: int = 0) -> str:
    result = onward(place / "home", *arguments)
    assert result.exit_code == code, result.output
    return result.stdout


def listed(place: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(run(place, "sources", "--json"))["sources"]
    return found


def test_a_source_is_watched_paused_resumed_and_removed(place: Path) -> None:
    notes = str(place / "notes")
    text = run(place, "watch", notes, "--every", "15m", "--keep", "--no-worker")
    assert "notes is ingested now and every 15 min" in " ".join(text.split())
    (one,) = listed(place)
    assert (one["source"], one["every_seconds"], one["on_vanished"]) == (notes, 900.0, "keep")
    assert (one["watched"], one["paused"], one["result"]) == (True, False, "waiting")
    assert one["next_run"] is not None
    assert "No worker is alive" in text
    text = run(place, "sources", "add", "notes", "--dry-run")
    assert "notes would be ingested now and every 15 min" in " ".join(text.split())
    planned = json.loads(run(place, "sources", "pause", "notes", "--dry-run", "--json"))
    assert planned == {"dry_run": True, "sources": [notes]}
    run(place, "sources", "pause", "notes")
    (one,) = listed(place)
    assert (one["paused"], one["next_run"]) == (True, None)
    assert "paused" in run(place, "sources")
    assert "nothing to pause, it is paused already" in run(place, "sources", "pause", "notes")
    run(place, "sources", "resume", "notes")
    run(place, "sources", "add", notes, "--every", "1h", "--forget")
    (one,) = listed(place)
    assert (one["every_seconds"], one["on_vanished"], one["paused"]) == (3600.0, "forget", False)
    run(place, "sources", "remove", "notes")
    (one,) = listed(place)
    assert (one["watched"], one["next_run"]) == (False, None)
    assert "nothing to resume, it is not watched" in run(place, "sources", "resume", "notes")


def test_a_password_in_a_location_is_shown_by_no_command(place: Path) -> None:
    page = "https://ada:s3cretpw@example.org/page"
    run(place, "watch", page, "--every", "1h", "--no-worker")
    for name in ("run", "pause", "resume", "remove"):
        for more in ((), ("--json",), ("--dry-run", "--json")):
            assert "s3cretpw" not in run(place, "sources", name, page, *more)
    assert "s3cretpw" not in run(place, "sources") + run(place, "sources", "--json")


def test_what_cannot_be_watched_is_refused(place: Path) -> None:
    for arguments, says in (
        (("watch", str(place / "missing"), "--every", "1h"), "there is no file or folder"),
        (("watch", str(place / "notes")), "say how often"),
        (("watch", str(place / "notes"), "--every", "1s"), "too often"),
        (("watch", str(place / "notes"), "--every", "often"), "give a span"),
        (("watch", str(place / "notes"), "--every", "1h", "--option", "depth=3"), "has no option 'depth'"),
    ):
        for command in ((*arguments, "--no-worker"), ("sources", "add", *arguments[1:], "--dry-run")):
            result = onward(place / "home", *command)
            assert result.exit_code == 2, result.output
            assert says in " ".join(result.output.split())
    assert listed(place) == []


def test_a_worker_does_the_runs(place: Path) -> None:
    run(place, "sources", "add", str(place / "notes"), str(place / "more"), "--every", "1h", "--json")
    # In a process of its own: worker processes have the environment of the first command that has started one.
    worked = onward_process(place / "home", "worker", "--until-idle", "0")
    assert worked.returncode == 0, worked.stderr
    facts = {Path(one["source"]).name: one for one in listed(place)}
    assert {name: (one["result"], one["counts"]["new"]) for name, one in facts.items()} == {
        "notes": ("completed", 1),
        "more": ("completed", 1),
    }
    planned = json.loads(run(place, "sources", "run", "notes", "--dry-run", "--json"))
    assert planned["sources"] == [str(place / "notes")]
    assert "notes would be ingested again" in " ".join(run(place, "sources", "run", "notes", "--dry-run").split())
    assert "No worker is alive" in run(place, "sources", "run", "notes")
    assert {one["result"] for one in listed(place)} == {"completed", "waiting"}


def test_a_source_whose_login_is_refused_says_so_and_what_to_do(place: Path) -> None:
    run(place, "watch", "imaps://ada@mail.example.org/", "--every", "2h30m", "--no-worker")
    store = open_store(f"sqlite:///{place / 'home' / 'onward.db'}")
    remedy = "put it right; or allow another try: onward breakers close login:ada@mail.example.org"
    store.open_breaker("login:ada@mail.example.org", "the login is refused.", remedy=remedy, probed=False)
    store.close()
    (one,) = listed(place)
    assert (one["result"], one["error"]) == ("waiting", f"the login is refused: {remedy}")
    text = " ".join(run(place, "sources").split())
    assert "2 h 30 min" in text
    assert f"the login is refused: {remedy}" in text
    assert "(for the sources of this account)" in run(place, "breakers")
    assert "close login:ada@mail.example.org\n" in run(place, "status"), "the command is named once"


def test_a_run_that_removed_everything_says_so() -> None:
    items = {"items": 0, "new": 0, "unchanged": 0, "failed": 0, "removed": 16}
    report = IngestionReport(
        "a", "completed", items, {}, {}, [], DamagedMessages(), SkippedFiles(), {}, {}, 0, [], []
    )
    assert _describe(report) == ["0 items, 16 removed"]


def test_what_changed_is_counted_beside_what_did_not() -> None:
    items = {"items": 98, "new": 2, "unchanged": 96, "failed": 0, "removed": 1}
    report = IngestionReport(
        "a", "completed", items, {}, {}, [], DamagedMessages(), SkippedFiles(), {}, {}, 0, [], []
    )
    assert _describe(report) == ["98 items, 2 new or changed, 1 removed"]
    report.items |= {"new": 98, "unchanged": 0, "removed": 0}
    assert _describe(report) == ["98 items"], "all are, in the first run"


def test_attachments_are_no_new_messages() -> None:
    documents = {"messages": {"processed": 8}, "chunks": {"processed": 10}, "threads": {"processed": 2}}
    messages, added = {"messages": 3, "parsed": 3, "failed": 0, "duplicates": 0}, {"messages": 6, "attachments": 5}
    items = {"items": 1, "new": 0, "unchanged": 1, "failed": 0, "removed": 0}
    report = IngestionReport(
        "a", "completed", items, messages, {}, [], DamagedMessages(), SkippedFiles(), documents, added, 0, [], []
    )
    assert _describe(report) == ["3 messages: 3 parsed; 1 of them new", "10 chunks, 2 threads summarised"]
    report.added["messages"] = 8
    assert _describe(report)[0] == "3 messages: 3 parsed", "all of them are"


def test_attachments_that_are_not_read_are_counted_with_the_reasons() -> None:
    counts: dict[str, Any] = {"total": 12, "searchable": 3, "waiting": 0, "failed": 1, "not_read": 8}
    counts["reasons"] = {"it is empty": 4, "one": 2, "two": 1, "three": 1}
    assert attachment_lines(counts) == [
        "12 attachments: 3 searchable, 8 not read, 1 failed",
        "not read: 4 × it is empty, 2 × one, 1 × two, …",
    ]
    assert attachment_lines(counts | {"not_read": 0, "reasons": {}})[1:] == []


@pytest.mark.parametrize(
    ("location", "meant"), (("gti+https://example.org/x.git", "git+https"), ("htps://example.org/", "https"))
)
def test_a_scheme_with_a_slip_names_the_one_that_is_meant(place: Path, location: str, meant: str) -> None:
    refused = onward(place / "home", "watch", location, "--every", "1h")
    assert refused.exit_code == 2
    assert f"did you mean {meant}://?" in " ".join(refused.output.split())
