"""`onward show` reports everything that is known of one document."""

from __future__ import annotations

import json
import re
import shlex
import shutil
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward import App, Document
from onward.settings import load_settings
from tests.cli.scenes import Note, failing_app, invalid_fields, run
from tests.support.command_runs import ESCAPE, SAMPLE, onward

WITH_ATTACHMENT = ("comparing the predictions for my thesis daily means attached", "--author", "priya")


def find(library: Path, *words: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(onward(library, "search", *words, "--json").stdout)["results"][0]
    return found


def facts(home: Path, id: str) -> dict[str, Any]:
    result = onward(home, "show", id, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def test_a_message_with_its_headers_text_and_state(library: Path) -> None:
    message = find(library, *WITH_ATTACHMENT)
    found = facts(library, message["id"])
    assert (found["collection"], found["status"], found["next"]["kind"]) == ("messages", "processed", "processed")
    body = found["body"]
    assert body["subject"] == "Tide gauge reads high since the storm"
    assert body["author"] == "Priya Raman <priya.raman@ocean.example.org>"
    assert "Does anybody know why the tide gauge drifts?" in body["body"]
    assert body["thread_id"] == message["thread_id"]
    (attachment,) = body["attachments"]
    assert (attachment["name"], attachment["content_type"]) == ("gauge-daily-means.csv", "text/csv")
    assert (attachment["size"], attachment["indexed"]) == (645, True)


def test_a_thread_with_its_summary_and_messages(library: Path) -> None:
    message = find(library, "why did the tide gauge drift")
    found = facts(library, message["thread_id"])
    assert (found["collection"], found["message_count"], len(found["message_ids"])) == ("threads", 10, 10)
    assert message["id"] in found["message_ids"]
    assert found["summary"]["thread_id"] == message["thread_id"]
    assert found["summary"]["model"] == "extractive"


def test_the_bytes_of_a_message_as_they_were_fetched(library: Path) -> None:
    message = find(library, *WITH_ATTACHMENT)
    raw = onward(library, "show", "--raw", message["id"]).stdout_bytes
    assert raw.startswith((b"From priya.raman@ocean.example.org", b"From: Priya Raman"))
    assert raw.strip() in SAMPLE.read_bytes()
    assert b"Message-ID: <gauge-1.20260303@ocean.example.org>" in raw


def test_a_failed_message_with_its_error_and_its_bytes(library: Path) -> None:
    (failed,) = onward(library, "documents", "--status", "failed", "--json").stdout.splitlines()
    id = json.loads(failed)["id"]
    found = facts(library, id[:10])
    assert (found["id"], found["status"], found["next"]["kind"]) == (id, "failed", "failed")
    assert found["lastError"]["error_type"] == "UnreadableMail"
    assert "401 bytes" in found["lastError"]["message"]
    raw = onward(library, "show", "--raw", id).stdout_bytes
    assert len(raw) > 400
    assert raw in SAMPLE.read_bytes()


def test_every_kind_of_document_can_be_shown(library: Path) -> None:
    lines = onward(library, "documents", "--json").stdout.splitlines()
    one_each = {one["collection"]: one["id"] for one in map(json.loads, lines)}
    assert set(one_each) == {
        "archives",
        "chunks",
        "messages",
        "reports",
        "summaries",
        "tasks",
        "threads",
        "versions",
    }
    for id in one_each.values():
        result = onward(library, "show", id)
        assert result.exit_code == 0
        assert f"/{id}\nstatus " in result.stdout


def test_a_file_that_could_not_be_fetched_is_no_request_for_a_source(home: Path, tmp_path: Path) -> None:
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "report.docx").write_bytes(b"PK\x03\x04 cut off")
    (tmp_path / "notes" / "note.txt").write_text("A note.")
    onward(home, "ingest", str(tmp_path / "notes"), "--processes", "1")
    kinds = {}
    for one in onward(home, "documents", "--collection", "archives", "--json").stdout.splitlines():
        shown = onward(home, "show", json.loads(one)["id"]).stdout
        kinds[shown.splitlines()[0].split()[-1]] = shown.partition("kind ")[2].partition("\n")[0].strip()
    assert kinds == {
        "notes": "the request to fetch the source",
        "note.txt": "text",
        "report.docx": "an item that could not be fetched",
    }


def test_what_has_no_bytes_is_refused(library: Path) -> None:
    thread = find(library, "tide gauge")["thread_id"]
    result = onward(library, "show", "--raw", thread)
    assert result.exit_code == 2
    assert "has no bytes of its own" in result.stderr


def test_an_unknown_id_and_one_too_short(library: Path) -> None:
    unknown = onward(library, "show", "zzzz")
    assert unknown.exit_code == 2
    assert "no document has an id that begins with 'zzzz'" in unknown.stderr
    assert onward(library, "show", "zz\udcffzz").exit_code == 2
    short = onward(library, "show", "a")
    assert short.exit_code == 2
    assert "give at least the first 4 characters" in short.stderr


def test_a_failed_round_with_the_time_of_the_next(home: Path) -> None:
    run(failing_app(home, TimeoutError("too slow")), "note-1")
    found = facts(home, "note-1")
    assert (found["status"], found["attemptCount"], found["body"]["text"]) == ("pending", 1, "Hello")
    assert found["lastError"] == {"error_type": "TimeoutError", "message": "too slow"}
    assert (found["next"]["kind"], found["next"]["command"]) == ("due", "")
    wait = datetime.fromisoformat(found["next"]["at"]) - datetime.fromisoformat(found["lastAttemptTime"])
    assert wait.total_seconds() == pytest.approx(300, abs=5)
    created, outcome = found["life"]["moments"]
    assert (created["what"], outcome["what"]) == ("created", "outcome")
    assert (outcome["round"], outcome["attempt"], outcome["error_type"]) == (1, 1, "TimeoutError")
    assert found["life"]["dead_letter"]["reason"] == "max_attempts_exceeded"
    assert found["life"]["dead_letter"]["failed_queue"] == "reading.failed"
    assert (found["life"]["row"], found["life"]["failed_batch"]) == (None, None)


def test_what_failed_for_good_names_the_command_that_puts_it_back(home: Path) -> None:
    run(failing_app(home, KeyError("price")), "note-1")
    found = facts(home, "note-1")
    assert (found["next"]["kind"], found["next"]["command"]) == ("failed", "onward retry notes/note-1")
    assert found["lastError"] == {"error_type": "KeyError", "message": "'price'"}


def test_a_document_of_any_app_is_shown_as_json_that_drives_no_terminal(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(Note(id="note-1", text=f"{ESCAPE}[31mred [bold]not markup[/bold]"))
    app.close()
    shown = onward(home, "show", "note-1").stdout
    assert shown.startswith('{\n  "id": "note-1",\n')
    assert "[bold]not markup[/bold]" in shown
    assert ESCAPE not in shown


def test_an_errors_text_is_data_and_no_markup(home: Path) -> None:
    run(failing_app(home, TimeoutError(f"[red]x[/red] {ESCAPE}[2J password=hunter22")), "note-1")
    shown = onward(home, "show", "note-1").stdout
    assert "[red]x[/red] [2J password=***" in shown
    assert ESCAPE not in shown


def test_a_thread_whose_messages_are_not_finished_is_not_complete(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(library, copy)
    message = find(library, "why did the tide gauge drift")
    app = App(settings=load_settings({"ONWARD_HOME": str(copy)}))
    app.store.reset("messages", message["id"])
    app.store.reset("threads", message["thread_id"])
    app.close()
    assert facts(copy, message["thread_id"])["next"]["kind"] == "incomplete"


def test_what_others_have_written_badly_is_shown_all_the_same(home: Path) -> None:
    invalid_fields(home)
    found = facts(home, "note-1")
    assert (found["createdAt"], found["lastError"]["message"]) == ("once", "oops")
    assert (found["next"]["kind"], len(found["next"]["problems"])) == ("due", 3)
    assert any("'many'" in problem for problem in found["next"]["problems"])
    assert found["outcomes"] == []
    assert onward(home, "show", "note-1").exit_code == 0


def test_an_ambiguous_beginning_lists_what_it_matches(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(*(Note(id=f"abcd{one:02}", text="Hello") for one in range(12)))
    app.close()
    result = onward(home, "show", "abcd")
    assert result.exit_code == 2
    assert re.findall(r"^  (\w+)  \(notes\)$", result.stderr, re.MULTILINE) == [
        f"abcd{one:02}" for one in range(10)
    ]
    assert "12 documents" in result.stderr
    assert facts(home, "abcd07")["id"] == "abcd07"


@given(
    ids=st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4), min_size=1)
)
def test_the_store_finds_every_id_with_a_prefix_and_no_other(ids: set[str]) -> None:
    app = App(store=":memory:")
    app.add(*(Note(id=id, text="") for id in ids))
    for id in ids:
        for length in range(len(id) + 1):
            prefix = id[:length]
            expected = [("notes", one) for one in sorted(ids, key=str.encode) if one.startswith(prefix)]
            assert app.store.ids_like(prefix) == expected
    app.close()


def test_a_short_id_is_found_if_it_is_whole(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(Note(id="7", text="Hello"), Note(id="77", text="Others"), Note(id=" 8", text="Blank"))
    app.close()
    assert facts(home, "7")["body"]["text"] == "Hello"
    assert facts(home, " 7 ")["body"]["text"] == "Hello"
    assert facts(home, " 8")["body"]["text"] == "Blank"
    assert onward(home, "show", "8").exit_code == 2


class Memo(Document):
    text: str


def test_a_collection_distinguishes_documents_of_the_same_id(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(Note(id="same-1", text="a note"), Memo(id="same-1", text="a memo"), Note(id="memos/x", text="nested"))
    app.close()
    assert facts(home, "notes/same-1")["body"]["text"] == "a note"
    assert facts(home, "memos/same")["body"]["text"] == "a memo"
    assert facts(home, "memos/x")["body"]["text"] == "nested"
    missing = onward(home, "show", "memos/other")
    assert missing.exit_code == 2
    assert "memos" in missing.stderr
    assert "'other'" in missing.stderr


def test_of_documents_with_the_same_id_the_one_is_meant_that_a_service_finishes(home: Path) -> None:
    run(failing_app(home, KeyError("price")), "same-1")
    again = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    again.add(Memo(id="same-1", text="a memo"))
    again.close()
    assert facts(home, "same-1")["collection"] == "notes"


def test_the_command_that_puts_it_back_can_be_pasted_whatever_its_id_is(home: Path) -> None:
    id = "it's  $HOME/mine"
    run(failing_app(home, KeyError("price")), id)
    (line,) = (one for one in onward(home, "show", id).stdout.splitlines() if one.startswith("next "))
    typed = shlex.split(line[line.index("onward retry") :])
    assert typed == ["onward", "retry", f"notes/{id}"]
    assert json.loads(onward(home, *typed[1:], "--json").stdout)["documents"][0]["id"] == id
