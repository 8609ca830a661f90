"""`onward ingest` takes sources in, and accounts for every message."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import Result

from onward.ops.queries.ingestion_report import read_ingestion_report
from onward.pipeline.app import build
from onward.pipeline.documents import source_id
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import ESCAPE, mail, onward, write_mailbox


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("ingest")


@pytest.fixture(scope="module")
def mailbox(place: Path) -> Path:
    """Three mails in two threads, one of them twice, and something that is no mail."""
    first = mail(1, "Lamp oil", "The lamp needs oil before Friday. Who can fetch some?")
    answer = mail(2, "Re: Lamp oil", "I fetch it on Thursday.", thread=1, author="Ben")
    broken = b"From nobody Mon Mar  2 09:03:00 2026\n\x80\xa5\xca\xef\n\n"
    other = mail(4, "Boathouse key", "The key hangs in the wheelhouse.")
    return write_mailbox(place / "list.mbox", [first, answer, first, broken, other])


@pytest.fixture(scope="module")
def first_run(place: Path, mailbox: Path) -> Result:
    sources = (str(mailbox), str(place / "missing.mbox"))
    return onward(place / "home", "ingest", *sources, "--processes", "1", "--json")


def test_every_message_is_accounted_for(first_run: Result, mailbox: Path) -> None:
    (source,) = json.loads(first_run.stdout)["sources"]
    assert (source["source"], source["status"]) == (str(mailbox), "partially_completed")
    assert source["messages"] == {"messages": 4, "parsed": 3, "failed": 1, "duplicates": 1}
    counts = {name: source["documents"][name].get("processed", 0) for name in ("chunks", "threads", "summaries")}
    assert counts == {"chunks": 3, "threads": 2, "summaries": 2}


def test_what_failed_can_be_looked_at(first_run: Result, place: Path) -> None:
    assert first_run.exit_code == 3
    (source,) = json.loads(first_run.stdout)["sources"]
    (failure,) = source["failures"]
    assert (source["failed"], failure["collection"]) == (1, "messages")
    shown = onward(place / "home", "show", f"messages/{failure['id']}", "--json")
    assert json.loads(shown.stdout)["status"] == "failed"


def test_a_source_that_is_missing_does_not_stop_the_others(first_run: Result, place: Path) -> None:
    (refused,) = json.loads(first_run.stdout)["refused"]
    assert refused["source"] == f"{place}/missing.mbox"
    assert f"'{place}/missing.mbox'" in refused["error"]


def test_without_a_terminal_there_are_no_control_codes(first_run: Result) -> None:
    assert ESCAPE not in first_run.output


def test_the_workers_write_to_a_log_file(first_run: Result, place: Path) -> None:
    assert "nothing falls due within 60 s" in (place / "home" / "onward.log").read_text()
    assert "falls due" not in first_run.output


def test_ingesting_again_finds_nothing_new_then_what_was_added(
    first_run: Result, place: Path, mailbox: Path
) -> None:
    again = onward(place / "home", "ingest", str(mailbox), "--processes", "1", "--json")
    (source,) = json.loads(again.stdout)["sources"]
    assert source["messages"] == {"messages": 4, "parsed": 3, "failed": 1, "duplicates": 1}
    assert set(source["added"].values()) <= {0, 1}, "one more task"
    assert (source["added"]["messages"], source["added"]["chunks"], source["added"]["threads"]) == (0, 0, 0)
    with mailbox.open("ab") as file:
        file.write(mail(5, "Re: Boathouse key", "Not any more, it is with Davy.", thread=4))
    grown = onward(place / "home", "ingest", str(mailbox), "--processes", "1", "--json")
    (source,) = json.loads(grown.stdout)["sources"]
    assert source["messages"] == {"messages": 5, "parsed": 4, "failed": 1, "duplicates": 1}
    assert (source["added"]["messages"], source["added"]["threads"]) == (1, 0)
    assert source["failures"][0]["collection"] == "messages"
    assert source["status"] == "partially_completed"


@pytest.mark.parametrize(
    ("source", "problem"),
    (
        ("no/such/file.mbox", "'no/such/file.mbox'"),
        ("ftp://example.org/list.mbox", "'ftp'"),
        ("", "the source is empty"),
    ),
)
def test_when_nothing_can_be_submitted_it_fails(home: Path, source: str, problem: str) -> None:
    result = onward(home, "ingest", source)
    assert result.exit_code == 1
    assert problem in result.stderr
    (refused,) = json.loads(onward(home, "ingest", source, "--json").stdout)["refused"]
    assert refused["source"] == source
    assert problem in refused["error"]


def test_a_source_that_cannot_be_fetched_shows_why(home: Path) -> None:
    result = onward(home, "ingest", "http://127.0.0.1:9/list.mbox", "--processes", "1", "--json")
    assert result.exit_code == 1
    (source,) = json.loads(result.stdout)["sources"]
    assert (source["source"], source["status"]) == ("http://127.0.0.1:9/list.mbox", "failed")
    (failure,) = source["failures"]
    assert failure["error"].startswith("PrivateAddress: ")
    assert "ONWARD_FETCH_ALLOW_PRIVATE" in failure["error"]


def test_a_source_that_may_recover_waits(home: Path) -> None:
    """Nobody listens there: after three tries it waits for the retry job."""
    allowed = {"ONWARD_FETCH_ALLOW_PRIVATE": "true", "ONWARD_MAX_RETRIES": "1"}
    source = "http://127.0.0.1:9/list.mbox"
    result = onward(home, "ingest", source, "--processes", "1", "--json", more=allowed)
    assert result.exit_code == 3
    (report,) = json.loads(result.stdout)["sources"]
    (waiting,) = report["waiting"]
    assert (waiting["collection"], waiting["count"], waiting["incomplete"]) == ("archives", 1, False)
    assert datetime.fromisoformat(waiting["until"]) > datetime.now(UTC)
    assert waiting["error"].startswith("ConnectionError")
    assert "problem: ingestion: " in result.stderr


def test_submitting_only_leaves_the_work_to_a_worker(home: Path, mailbox: Path) -> None:
    result = onward(home, "ingest", "--no-wait", str(mailbox), str(mailbox), "--json")
    assert result.exit_code == 0
    assert json.loads(result.stdout) == {"submitted": [str(mailbox)], "refused": []}
    (need,) = json.loads(onward(home, "status", "--json").stdout)["needs"]
    assert (need["kind"], need["command"]) == ("no_worker", "onward worker")


def test_a_broker_that_is_away_keeps_no_source_from_being_submitted(home: Path, mailbox: Path) -> None:
    more = {"ONWARD_GATEWAY": "amqp://me@127.0.0.1:9/"}
    assert onward(home, "ingest", "--no-wait", str(mailbox), more=more).exit_code == 0
    status = json.loads(onward(home, "status", "--json").stdout)
    assert (status["outbox"]["waiting"], status["outbox"]["served"]) == (1, False)
    more = {"ONWARD_GATEWAY": "amqps://me@127.0.0.1:9/?cafile=/nowhere.pem"}
    assert onward(home, "ingest", "--no-wait", str(mailbox), more=more).exit_code == 1, "a person has to change it"


def test_a_missing_package_is_named_with_its_remedy(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import builtins

    original = builtins.__import__

    def without_httpx(name: str, *args: object, **kwargs: object) -> object:
        if name == "onward.pipeline.app":
            raise ModuleNotFoundError("No module named 'httpx2'", name="httpx2")
        return original(name, *args, **kwargs)  # type: ignore[arg-type]  # handed on as it came

    monkeypatch.setattr(builtins, "__import__", without_httpx)
    result = onward(home, "ingest", "x")
    assert result.exit_code == 2
    assert "'httpx2'" in result.stderr
    assert "pip install 'onward[pipeline]'" in result.stderr


def test_what_waits_for_a_dependency_names_it(home: Path, mailbox: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(mailbox))
    app.store.open_breaker("embedder", "Connection refused")
    app.work_until_idle(["ingestion", "parsing", "chunking"])
    found = read_ingestion_report(app, str(mailbox), {})
    app.close()
    chunks, threads = found.waiting
    assert (chunks.collection, chunks.dependency, chunks.error) == ("chunks", "embedder", "Connection refused")
    assert chunks.until is not None
    assert (threads.collection, threads.dependency) == ("threads", "")
    assert not found.is_clean


def test_a_model_that_does_not_exist_stops_the_start(home: Path, mailbox: Path) -> None:
    result = onward(home, "ingest", str(mailbox), more={"ONWARD_EMBEDDER": "magic"})
    assert result.exit_code == 1
    assert "ONWARD_EMBEDDER='magic'" in result.stderr


def test_a_name_that_is_no_text_is_refused_with_a_remedy(home: Path, tmp_path: Path) -> None:
    odd = tmp_path / "b\udcff\x1b[31mad.mbox"
    odd.write_bytes(mail(1, "Lamp", "It burns."))
    result = onward(home, "ingest", str(odd))
    assert result.exit_code == 1
    assert "is not UTF-8; rename it, or ingest its folder" in result.stderr
    assert ESCAPE not in result.output


def test_a_path_that_may_not_be_looked_at_is_not_called_missing(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    locked, look = str(tmp_path / "locked" / "list.mbox"), os.lstat

    def refuse(path: str, *args: object, **more: object) -> os.stat_result:
        if str(path) == locked:
            raise PermissionError(13, "Permission denied", path)
        return look(path, *args, **more)  # type: ignore[arg-type]  # handed on as they came

    monkeypatch.setattr(os, "lstat", refuse)
    result = onward(home, "ingest", locked)
    assert result.exit_code == 1
    assert f"'{locked}' may not be read" in result.stderr


def test_names_that_are_no_text_are_printed_byte_by_byte(home: Path, tmp_path: Path) -> None:
    names = [os.fsdecode(os.fsencode(tmp_path) + name) for name in (b"/caf\xe9.mbox", b"/caf\xe8.mbox")]
    Path(names[0]).touch()
    result = onward(home, "ingest", *names, "--json")
    assert result.exit_code == 1
    there, missing = json.loads(result.stdout)["refused"]
    assert (there["source"], missing["source"]) == (f"{tmp_path}/caf\\xe9.mbox", f"{tmp_path}/caf\\xe8.mbox")
    assert "caf\\xe9.mbox' is not UTF-8" in there["error"]
    assert "caf\\xe8.mbox'" in missing["error"]


def test_items_that_cannot_be_read_are_counted_by_their_error(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("The lamp burns.")
    for one in range(7):
        (folder / f"{one}.zip").write_bytes(b"PK\x03\x04 cut off")
    (folder / "cut.pdf").write_bytes(b"%PDF-1.4\n")
    (source,) = json.loads(onward(home, "ingest", str(folder), "--processes", "1", "--json").stdout)["sources"]
    assert source["failed"] == 8
    counts = {one["error"].partition(": ")[0]: one["count"] for one in source["failures"]}
    assert counts == {"Broken": 7, "BrokenPDF": 1}, (
        "of an item that cannot be fetched, and one that cannot be read"
    )


def test_a_source_that_was_forgotten_meanwhile_is_not_called_completed(home: Path, mailbox: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    one = read_ingestion_report(app, str(mailbox), {"archives": 1})
    app.close()
    assert (one.status, one.is_clean) == ("forgotten", False)


def test_what_is_passed_over_is_counted_and_can_be_listed(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "notes.txt").write_text("The lamp burns.")
    (folder / "empty.txt").touch()
    for one in range(120):
        (folder / f"{one:03}.png").write_bytes(b"\x89PNG\r\n\x1a\n\0")
    (source,) = json.loads(onward(home, "ingest", str(folder), "--processes", "1", "--json").stdout)["sources"]
    found = source["passed_over"]
    assert (found["total"], found["kinds"]) == (121, {"picture": 120, "empty": 1})
    assert (len(found["items"]), found["not_listed"]) == (101, 20)
    archive = f"archives/{source_id(str(folder))}"
    assert json.loads(onward(home, "show", archive, "--json").stdout)["passed_over"] == found
    shown = onward(home, "show", archive).stdout
    assert shown.count(".png  png file; text recognition is off (ONWARD_OCR=off)\n") == 100
    assert "  empty.txt  empty\n" in shown
    (source,) = json.loads(onward(home, "status", "--json").stdout)["sources"]
    assert source["passed_over"] == {"total": 121, "kinds": {"picture": 120, "empty": 1}}


@pytest.mark.parametrize(
    ("option", "says"),
    (
        ("depth=3", "File or folder has no option 'depth'; it has none"),
        ("depth", "the option 'depth' is no NAME=VALUE, such as depth=3"),
    ),
)
def test_a_wrong_option_is_wrong_usage(tmp_path: Path, option: str, says: str) -> None:
    (tmp_path / "a.txt").write_text("A text.")
    result = onward(tmp_path / "home", "ingest", str(tmp_path / "a.txt"), "--option", option)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())
