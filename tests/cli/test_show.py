"""`onward show` tells everything that is known of one document."""

from __future__ import annotations

import json
import shlex
import shutil
import sqlite3
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from onward import App, Document, Event, names
from onward.settings import load_settings
from tests.support.command_runs import ESCAPE, SAMPLE, onward


def find(library: Path, *words: str) -> dict[str, str]:
    found: dict[str, str] = json.loads(onward(library, "search", *words, "--json").stdout)["results"][0]
    return found


def test_a_message_with_its_headers_text_and_state(library: Path) -> None:
    message = find(library, "comparing the predictions for my thesis daily means attached", "--author", "priya")
    shown = onward(library, "show", message["id"]).stdout
    assert "subject     Tide gauge reads high since the storm\n" in shown
    assert "from        Priya Raman <priya.raman@ocean.example.org>\n" in shown
    assert "attached    gauge-daily-means.csv (text/csv, 645 bytes, found by search)\n" in shown
    assert "Does anybody know why the tide gauge drifts?" in shown
    assert "status      processed\n" in shown
    assert f"onward show {message['thread_id'][:8]}" in shown


def test_a_thread_with_its_summary_and_messages(library: Path) -> None:
    message = find(library, "why did the tide gauge drift")
    shown = onward(library, "show", message["thread_id"]).stdout
    assert "by extractive" in shown
    assert "10 messages\n" in shown
    assert message["id"][:8] in shown
    facts = json.loads(onward(library, "show", message["thread_id"], "--json").stdout)
    assert (facts["collection"], len(facts["message_ids"])) == ("threads", 10)
    assert facts["summary"]["thread_id"] == message["thread_id"]


def test_the_bytes_of_a_message_as_they_were_fetched(library: Path) -> None:
    message = find(library, "comparing the predictions for my thesis daily means attached", "--author", "priya")
    raw = onward(library, "show", "--raw", message["id"]).stdout_bytes
    assert raw.startswith((b"From priya.raman@ocean.example.org", b"From: Priya Raman"))
    assert raw.strip() in SAMPLE.read_bytes()
    assert b"Message-ID: <gauge-1.20260303@ocean.example.org>" in raw


def test_a_failed_message_with_its_error_and_its_bytes(library: Path) -> None:
    (failed,) = onward(library, "documents", "--status", "failed", "--json").stdout.splitlines()
    id = json.loads(failed)["id"]
    shown = onward(library, "show", id[:10]).stdout
    assert "status      failed\n" in shown
    assert "UnreadableMail: no headers in a mail of 401 bytes" in shown
    raw = onward(library, "show", "--raw", id).stdout_bytes
    assert len(raw) > 400
    assert raw in SAMPLE.read_bytes()


def test_every_kind_of_document_can_be_shown(library: Path) -> None:
    lines = onward(library, "documents", "--json").stdout.splitlines()
    one_each = {one["collection"]: one["id"] for one in map(json.loads, lines)}
    assert set(one_each) == {"archives", "chunks", "messages", "reports", "summaries", "tasks", "threads"}
    for id in one_each.values():
        result = onward(library, "show", id)
        assert result.exit_code == 0
        assert f"/{id}\nstatus " in result.stdout


def test_what_has_no_bytes_says_so(library: Path) -> None:
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


class Note(Document):
    text: str


class NoteWritten(Event):
    note_id: str = names(Note)


def notes(home: Path, error: Exception, *, tries: str = "1") -> App:
    """An app whose only service fails."""
    app = App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": tries}))

    @app.service("reading", on=NoteWritten, finishes=Note)
    def read(note: Note, work: object) -> None:
        raise error

    return app


def write(app: App, *ids: str) -> None:
    written = [Note(id=id, text="Hello") for id in ids]
    app.publish(*(NoteWritten(note_id=one.id) for one in written), documents=written)
    app.work_until_idle()
    app.close()


def test_a_failed_round_is_told_with_what_happens_next(home: Path) -> None:
    write(notes(home, TimeoutError("too slow")), "note-1")
    shown = onward(home, "show", "note-1").stdout
    assert "next        due in 5 min: round 1 of 5 failed with TimeoutError: too slow; backoff 5 min\n" in shown
    life = shown.partition("\nHistory\n")[2].splitlines()
    assert life[0].endswith("  created")
    assert "  failed, round given up  round 1, try 1 · " in life[1]
    assert life[2].strip() == "TimeoutError: too slow"
    assert "max_attempts_exceeded in reading.failed: onward failed inspect " in shown


def test_what_failed_for_good_names_the_command_that_puts_it_back(home: Path) -> None:
    write(notes(home, KeyError("price")), "note-1")
    shown = onward(home, "show", "note-1").stdout
    assert (
        "next        failed for good: KeyError: 'price'; retry it after a fix: onward retry notes/note-1\n"
        in shown
    )


def test_programs_get_the_whole_life_and_what_is_next(home: Path) -> None:
    write(notes(home, TimeoutError("too slow")), "note-1")
    facts = json.loads(onward(home, "show", "note-1", "--json").stdout)
    assert (facts["next"]["kind"], facts["body"]["text"]) == ("due", "Hello")
    assert facts["next"]["at"] > facts["times"]["last_attempt_time"]
    assert [one["what"] for one in facts["life"]["moments"]] == ["created", "outcome"]
    assert facts["life"]["dead_letter"]["reason"] == "max_attempts_exceeded"
    assert (facts["life"]["row"], facts["life"]["failed_batch"]) == (None, None)


def test_a_document_of_any_app_is_shown_as_json_that_drives_no_terminal(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(Note(id="note-1", text=f"{ESCAPE}[31mred [bold]not markup[/bold]"))
    app.close()
    shown = onward(home, "show", "note-1").stdout
    assert shown.startswith('{\n  "id": "note-1",\n')
    assert "[bold]not markup[/bold]" in shown
    assert ESCAPE not in shown


def test_an_errors_text_is_data_and_no_markup(home: Path) -> None:
    write(notes(home, TimeoutError(f"[red]x[/red] {ESCAPE}[2J password=hunter22")), "note-1")
    shown = onward(home, "show", "note-1").stdout
    assert "[red]x[/red] [2J password=***" in shown
    assert ESCAPE not in shown


def test_a_thread_that_is_not_complete_says_what_is_missing(library: Path, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(library, copy)
    message = find(library, "why did the tide gauge drift")
    app = App(settings=load_settings({"ONWARD_HOME": str(copy)}))
    app.store.reset("messages", message["id"])
    app.store.reset("threads", message["thread_id"])
    app.close()
    shown = onward(copy, "show", message["thread_id"]).stdout
    assert "next        not complete: 1 message is not finished yet\n" in shown


def test_what_others_have_written_badly_is_shown_all_the_same(home: Path) -> None:
    write(notes(home, TimeoutError("too slow")), "note-1")
    eye = sqlite3.connect(home / "onward.db")
    with eye:
        eye.execute(
            "UPDATE documents SET status = 'processing', attempt_count = 'many', created_at = 'once', "
            "last_attempt_time = 'soon', last_error = 'oops', attempts = '[3]'"
        )
    eye.close()
    shown = onward(home, "show", "note-1").stdout
    assert "next        due now: round 0 of 5 failed with oops; backoff 0 s" in shown
    assert "odd         attemptCount is 'many'; it counts as 0\n" in shown
    facts = json.loads(onward(home, "show", "note-1", "--json").stdout)
    assert (facts["times"]["created_at"], facts["error"]["message"]) == ("once", "oops")
    assert len(facts["next"]["problems"]) == 3
    assert facts["outcomes"] == []


def test_an_ambiguous_beginning_lists_what_it_matches(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(*(Note(id=f"abcd{one:02}", text="Hello") for one in range(12)))
    app.close()
    result = onward(home, "show", "abcd")
    assert result.exit_code == 2
    assert "'abcd' begins the ids of 12 documents; give more of one:\n  abcd00  (notes)\n" in result.stderr
    assert "… and 2 more" in result.stderr
    assert '"text": "Hello"\n' in onward(home, "show", "abcd07").stdout


@given(
    ids=st.sets(st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=4), min_size=1)
)
def test_the_store_finds_every_id_that_begins_so_and_no_other(ids: set[str]) -> None:
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
    assert '"text": "Hello"\n' in onward(home, "show", "7").stdout
    assert '"text": "Hello"\n' in onward(home, "show", " 7 ").stdout
    assert '"text": "Blank"\n' in onward(home, "show", " 8").stdout
    assert onward(home, "show", "8").exit_code == 2


class Memo(Document):
    text: str


def test_a_collection_tells_documents_of_the_same_id_apart(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.add(Note(id="same-1", text="a note"), Memo(id="same-1", text="a memo"), Note(id="memos/x", text="nested"))
    app.close()
    assert '"text": "a note"\n' in onward(home, "show", "notes/same-1").stdout
    assert '"text": "a memo"\n' in onward(home, "show", "memos/same").stdout
    assert '"text": "nested"\n' in onward(home, "show", "memos/x").stdout
    missing = onward(home, "show", "memos/other")
    assert missing.exit_code == 2
    assert "no document of memos has an id that begins with 'other'" in missing.stderr


def test_of_documents_with_the_same_id_the_one_is_meant_that_a_service_finishes(home: Path) -> None:
    write(notes(home, KeyError("price")), "same-1")
    again = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    again.add(Memo(id="same-1", text="a memo"))
    again.close()
    assert "notes/same-1" in onward(home, "show", "same-1").stdout


def test_the_command_that_puts_it_back_can_be_pasted_whatever_its_id_is(home: Path) -> None:
    id = "it's  $HOME/mine"
    write(notes(home, KeyError("price")), id)
    (line,) = (one for one in onward(home, "show", id).stdout.splitlines() if one.startswith("next "))
    typed = shlex.split(line[line.index("onward retry") :])
    assert typed == ["onward", "retry", f"notes/{id}"]
    assert json.loads(onward(home, *typed[1:], "--json").stdout)["documents"][0]["id"] == id
