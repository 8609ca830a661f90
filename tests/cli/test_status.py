"""`onward status` says first what needs a person."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from onward import App, Document, Event, names
from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support import failed_pages as ledger
from tests.support.command_runs import SAMPLE, onward


class Note(Document):
    text: str


class NoteWritten(Event):
    note_id: str = names(Note)


def failing(home: Path, error: Exception) -> App:
    """An app whose only service fails."""
    app = App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": "1"}))

    @app.service("reading", on=NoteWritten, finishes=Note)
    def read(note: Note, work: object) -> None:
        raise error

    return app


def run(app: App, *ids: str) -> None:
    written = [Note(id=id, text="") for id in ids]
    app.publish(*(NoteWritten(note_id=one.id) for one in written), documents=written)
    app.work_until_idle()
    app.close()


def test_what_failed_comes_before_everything_else(library: Path) -> None:
    lines = onward(library, "status").stdout.splitlines()
    assert lines[:2] == ["Needs a person", "  1 document failed:  onward failures list"]
    assert f"{SAMPLE}  partially_completed" in lines
    assert "  150 messages, 147 chunks, 35 threads, 1 failed" in lines


def test_programs_get_the_same_facts(library: Path) -> None:
    facts = json.loads(onward(library, "status", "--json").stdout)
    (source,) = facts["sources"]
    assert (source["status"], source["messages"], source["failed"]) == ("partially_completed", 150, 1)
    stages = {one["service"]: one["done"] for one in facts["stages"]}
    assert (stages["ingestion"], stages["parsing"], stages["chunking"]) == (1, 1, 149)
    assert (stages["embedding"], stages["summarization"]) == (147, 35)
    assert facts["store"].endswith("/onward.db")
    assert facts["size"] > 0
    assert facts["workers"] == []


def test_an_outage_that_needs_a_remedy_is_shown_with_it(home: Path) -> None:
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(SAMPLE))
    app.store.open_breaker("embedder", "401 Unauthorized", remedy="Check ONWARD_EMBEDDER_KEY")
    app.close()
    shown = onward(home, "status").stdout
    assert "  embedder has been down for 0 s: 401 Unauthorized. Check ONWARD_EMBEDDER_KEY" in shown
    (outage,) = json.loads(onward(home, "status", "--json").stdout)["outages"]
    assert (outage["dependency"], outage["reason"]) == ("embedder", "401 Unauthorized")


def test_before_anything_is_ingested_it_says_how_to_begin(home: Path) -> None:
    result = onward(home, "status")
    assert result.exit_code == 0
    assert "onward ingest SOURCE" in result.stdout
    assert not home.exists()


def test_an_outage_of_more_than_a_day_needs_a_person_a_shorter_one_does_not(home: Path) -> None:
    clock = SimulatedClock(time.time() - 25 * 3600)
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}), clock=clock)
    app.add(Note(id="note-1", text=""))
    app.store.open_breaker("printer", "no paper")
    clock.advance(24.9 * 3600)
    app.store.open_breaker("lamp", "no light")
    app.close()
    shown = onward(home, "status").stdout
    assert "  printer has been down for 25 h: no paper:  onward breakers\n" in shown
    assert "● lamp has been down for 6 min: no light; asked again in 0 s\n" in shown
    assert "lamp" not in shown.partition("\n\n")[0]


def test_a_worker_of_something_else_is_of_no_use(home: Path) -> None:
    app = failing(home, TimeoutError("too slow"))
    app.publish(NoteWritten(note_id="note-1"), documents=[Note(id="note-1", text="")])
    app.store.register_worker("somebody", {"services": {"writing": 1}})
    app.close()
    needs = json.loads(onward(home, "status", "--json").stdout)["needs"]
    assert [one["command"] for one in needs] == ["onward services"]
    assert needs[0]["text"].startswith("1 event of reading is due, and no worker runs it")


def test_what_a_worker_should_do_needs_one(home: Path) -> None:
    app = failing(home, TimeoutError("too slow"))
    app.publish(NoteWritten(note_id="note-1"), documents=[Note(id="note-1", text="")])
    app.close()
    assert (
        "  1 event is due, and no worker runs:  onward worker --app MODULE:APP\n" in onward(home, "status").stdout
    )


def test_documents_that_wait_for_a_retry_job_that_nobody_runs(home: Path) -> None:
    run(failing(home, TimeoutError("too slow")), "note-1", "note-2")
    shown = onward(home, "status").stdout
    assert "  2 documents wait for the retry job, which has never run here:  onward worker" in shown
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.store.set_gauge("retry_job_last_success_timestamp_seconds", "", time.time() - 60)
    app.close()
    shown = onward(home, "status").stdout
    assert "Nothing needs a person." in shown
    assert "retry job 60 s ago" in shown
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.store.set_gauge("retry_job_last_success_timestamp_seconds", "", time.time() - 3 * 3600)
    app.close()
    assert "wait for the retry job, which has not run for 3 h:" in onward(home, "status").stdout


def test_what_was_given_up_after_all_rounds_is_told_apart(home: Path) -> None:
    app = failing(home, TimeoutError("too slow"))
    app.publish(NoteWritten(note_id="note-1"), documents=[Note(id="note-1", text="")])
    app.work_until_idle()
    app.store.give_up([("notes", "note-1")])
    app.close()
    shown = onward(home, "status").stdout
    command = "onward documents list --status failed_max_retries"
    assert f"  1 document was given up after all rounds:  {command}\n" in shown


def test_dead_letters_that_the_retry_job_never_brings_back_need_a_person(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": "1"}))

    @app.service("telling", on=NoteWritten)
    def tell(event: NoteWritten, work: object) -> None:
        raise ConnectionError("nobody listens")

    app.publish(NoteWritten(note_id="note-1"))
    app.work_until_idle()
    app.close()
    shown = onward(home, "status").stdout
    assert "  dead letters that only a person puts back: telling 1:  onward failed list\n" in shown


def test_the_commonest_failures_are_shown_with_what_is_probably_wrong(home: Path) -> None:
    run(failing(home, KeyError("price")), *(f"note-{number}" for number in range(6)))
    shown = onward(home, "status").stdout
    facts = json.loads(onward(home, "status", "--json").stdout)
    (group,) = facts["failures"]
    assert (group["documents"], group["error"]) == (6, "KeyError: 'price'")
    assert f"  6 documents · reading · {group['verdict']}\n    KeyError: 'price'\n" in shown
    assert f"onward failures show {group['fingerprint']}\n" in shown


def test_a_failed_batch_that_keeps_failing_needs_a_person(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": "1"}))

    @app.service("reading", on=NoteWritten, finishes=Note, sets_aside=True)
    def read(note: Note, work: object) -> None:
        raise TimeoutError("too slow")

    app.publish(NoteWritten(note_id="note-1"), documents=[Note(id="note-1", text="")], source="desk")
    app.work_until_idle()
    app.store.set_gauge("retry_job_last_success_timestamp_seconds", "", time.time())
    (batch,) = app.store.failed_batches()
    shown = onward(home, "status").stdout
    assert "Nothing needs a person." in shown
    assert "● 1 document of desk set aside, retried in 60 s (0 retries so far): TimeoutError: too slow\n" in shown
    assert app.store.reschedule_batch(batch.id, 0.0)
    for number in range(10):
        assert app.store.claim_batch(batch.id, retry_count=number, until=0.0)
    app.close()
    assert "  1 failed batch (1 document) keeps failing:  onward batches list\n" in onward(home, "status").stdout


def test_the_documents_of_any_app_are_counted_by_collection(home: Path) -> None:
    run(failing(home, KeyError("price")), "note-1")
    lines = onward(home, "status").stdout.splitlines()
    assert any(line.split() == ["notes", "·", "·", "1"] for line in lines)
    assert json.loads(onward(home, "status", "--json").stdout)["documents"] == {"notes": {"failed": 1}}


def test_of_many_sources_those_that_are_not_done_come_first(home: Path) -> None:
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    for number in range(14):
        app.add(Note(id=f"note-{number}", text=""), source=f"desk-{number:02}")
    app.close()
    shown = onward(home, "status").stdout
    assert "desk-00  completed\n  1 notes\n" in shown
    assert "… and 4 other sources, 4 of them completed\n" in shown


def overdue(home: Path, *ids: str, sets_aside: bool = False) -> None:
    """Notes that failed two hours ago; the retry job has run since, but there is no worker."""
    clock = SimulatedClock(time.time() - 7200)
    app = App(settings=load_settings({"ONWARD_HOME": str(home), "ONWARD_MAX_RETRIES": "1"}), clock=clock)

    @app.service("reading", on=NoteWritten, finishes=Note, needs="lamp", sets_aside=sets_aside)
    def read(note: Note, work: object) -> None:
        raise TimeoutError("too slow")

    run(app, *ids)
    app.store.set_gauge("retry_job_last_success_timestamp_seconds", "", time.time())
    app.close()


@pytest.mark.parametrize("sets_aside", (False, True))
def test_what_is_due_to_be_retried_needs_a_worker(home: Path, sets_aside: bool) -> None:
    overdue(home, "note-1", "note-2", sets_aside=sets_aside)
    command = "onward worker --app MODULE:APP"
    shown = onward(home, "status").stdout
    assert f"  2 documents are due to be retried, and no worker runs:  {command}\n" in shown
    checks = json.loads(onward(home, "doctor", "--json").stdout)["checks"]
    (found,) = (one for one in checks if one["name"] == "retry job")
    assert (found["level"], found["remedy"]) == ("warning", command)
    assert found["text"] == "2 documents are due to be retried, and no worker runs"
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.store.register_worker("anna", {})
    app.close()
    assert "Nothing needs a person." in onward(home, "status").stdout


def test_what_waits_for_an_outage_is_not_due(home: Path) -> None:
    overdue(home, "note-1", sets_aside=True)
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}), clock=SimulatedClock(time.time() - 3600))
    app.add(Note(id="note-2", text="never begun"))
    app.close()
    facts = json.loads(onward(home, "status", "--json").stdout)
    assert facts["overdue"] == {"documents": 1, "in_batches": 1}
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    app.store.open_breaker("lamp", "no light")
    app.close()
    facts = json.loads(onward(home, "status", "--json").stdout)
    assert facts["overdue"] == {"documents": 0, "in_batches": 0}


def test_what_was_taken_out_of_service_by_hand_says_how_it_comes_back(home: Path) -> None:
    overdue(home, "note-1")
    onward(home, "breakers", "open", "lamp", "--reason", "new bulb")
    shown = onward(home, "status").stdout
    text = "lamp was taken out of service by an operator (new bulb); bring it back when it works:"
    assert f"  {text}  onward breakers close lamp\n" in shown
    assert shown.count("lamp was") == shown.count("new bulb") == 1


def test_dead_letters_are_called_so_and_those_of_pending_documents_need_nobody(home: Path) -> None:
    run(failing(home, TimeoutError("too slow")), "note-1")
    shown = onward(home, "status").stdout
    assert any(line.split()[-4:-2] == ["dead", "letters"] for line in shown.splitlines() if "stage" in line)
    assert "Dead letters of documents that are still pending need nobody" in shown
    (stage,) = json.loads(onward(home, "status", "--json").stdout)["stages"]
    assert stage["dead_letters"] == 1


def test_failures_beyond_the_commonest_are_counted(home: Path) -> None:
    with ledger.stage(home) as on:
        for number in range(9):
            ledger.fail(on, f"page-{number}", fingerprint=f"f00d{number}")
    shown = onward(home, "status").stdout
    assert "  … and 6 more: onward failures list\n" in shown
    assert json.loads(onward(home, "status", "--json").stdout)["other_failures"] == 6


def test_where_tables_do_not_fit_there_are_words(home: Path) -> None:
    run(failing(home, KeyError("price")), "note-1")
    lines = onward(home, "status", more={"COLUMNS": "40"}).stdout.splitlines()
    assert "notes: failed 1" in lines
    assert "reading: dead letters 1" in lines
