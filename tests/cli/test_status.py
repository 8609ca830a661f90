"""`onward status` reports first what needs a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli import scenes
from tests.support.command_runs import onward

WORKER = "onward worker --app MODULE:APP"


def facts(home: Path, command: str = "status") -> dict[str, Any]:
    result = onward(home, command, "--json")
    assert result.exit_code == 0, result.output
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def needs(home: Path) -> list[tuple[str, str]]:
    """The kind and the command of each need."""
    return [(one["kind"], one["command"]) for one in facts(home)["needs"]]


def test_what_failed_needs_a_person(library: Path) -> None:
    assert needs(library) == [("failed", "onward failures list")]
    assert onward(library, "status").stdout.startswith("Needs a person\n"), "before everything else"


def test_sources_and_stages_are_counted(library: Path) -> None:
    found = facts(library)
    (source,) = found["sources"]
    assert (source["status"], source["failed"]) == ("partially_completed", 1)
    assert (source["messages"], source["chunks"], source["threads"]) == (150, 147, 34)
    stages = {one["service"]: one["done"] for one in found["stages"]}
    assert (stages["ingestion"], stages["parsing"], stages["chunking"]) == (1, 1, 149)
    assert (stages["embedding"], stages["summarization"]) == (147, 34)
    assert found["store"].endswith("/onward.db")
    assert found["size"] > 0
    assert found["workers"] == []


def test_before_anything_is_ingested_it_names_the_command_to_begin_with(home: Path) -> None:
    result = onward(home, "status")
    assert result.exit_code == 0
    assert "onward ingest SOURCE" in result.stdout
    assert facts(home)["needs"] == []
    assert not home.exists()


# -- what needs a person


def test_outages_that_need_a_person_are_told_apart_from_those_that_do_not(home: Path) -> None:
    scenes.outages(home)
    found = {one["dependency"]: one for one in facts(home)["outages"]}
    assert {name: one["needs_person"] for name, one in found.items()} == {
        "printer": True,  # down for more than a day
        "embedder": True,  # there is a remedy
        "kettle": True,
        "lamp": False,
    }
    assert (found["embedder"]["reason"], found["embedder"]["remedy"]) == (
        "401 Unauthorized",
        "Check ONWARD_EMBEDDER_KEY",
    )
    assert (found["kettle"]["by_hand"], found["lamp"]["by_hand"]) == (True, False)
    assert found["printer"]["seconds"] == pytest.approx(25 * 3600, abs=60)
    assert sorted(needs(home)) == [
        ("opened_by_hand", "onward breakers close kettle"),
        ("outage", "onward breakers"),
        ("outage", "onward breakers"),
    ]


def test_each_outage_is_shown_once(home: Path) -> None:
    scenes.outages(home)
    shown = onward(home, "status").stdout
    assert [shown.count(name) for name in ("no paper", "401 Unauthorized", "new plug", "no light")] == [1] * 4
    assert "lamp" not in shown.partition("\n\n")[0], "it needs nobody"


def test_events_that_are_due_need_a_worker(home: Path) -> None:
    scenes.no_worker(home)
    assert needs(home) == [("no_worker", WORKER)]


def test_a_worker_of_another_service_does_not_serve_them(home: Path) -> None:
    scenes.other_worker(home)
    assert needs(home) == [("not_served", "onward services")]
    (stage,) = facts(home)["stages"]
    assert (stage["service"], stage["waiting"], stage["served"]) == ("reading", 1, False)


@pytest.mark.parametrize(
    ("seconds_ago", "late"), ((None, True), (60.0, False), (3 * 3600.0, True)), ids=("never", "lately", "long ago")
)
def test_documents_that_wait_need_a_retry_job(home: Path, seconds_ago: float | None, late: bool) -> None:
    scenes.retry_job(home, seconds_ago)
    job = facts(home)["retry_job"]
    assert (job["waiting"], job["overdue"]) == (2, late)
    assert job["seconds_ago"] == (None if seconds_ago is None else pytest.approx(seconds_ago, abs=30))
    assert needs(home) == ([("retry_job", WORKER)] if late else [])


def test_what_was_given_up_after_all_rounds_is_counted_separately(home: Path) -> None:
    scenes.given_up(home)
    assert needs(home) == [("given_up", "onward documents list --status failed_max_retries")]
    assert facts(home)["documents"] == {"notes": {"failed_max_retries": 1}}


def test_dead_letters_that_the_retry_job_never_brings_back_need_a_person(home: Path) -> None:
    scenes.dead_letters_of_no_document(home)
    assert needs(home) == [("dead_letters", "onward failed list")]
    (stage,) = facts(home)["stages"]
    assert (stage["service"], stage["dead_letters"], stage["finishes"]) == ("telling", 1, None)


def test_events_that_cannot_be_read_need_a_person_though_their_service_finishes_documents(home: Path) -> None:
    scenes.malformed(home)
    assert needs(home) == [("dead_letters", "onward failed list")]
    found = {stage["service"]: stage["malformed"] for stage in facts(home)["stages"] if stage["dead_letters"]}
    assert found == {"(no service)": 1, "reading": 1}


def test_dead_letters_of_pending_documents_need_nobody(home: Path) -> None:
    scenes.retry_job(home, 0.0)
    (stage,) = facts(home)["stages"]
    assert (stage["dead_letters"], stage["finishes"]) == (2, "notes")
    assert needs(home) == []


@pytest.mark.parametrize(("retries", "persistent"), ((0, False), (10, True)))
def test_a_failed_batch_that_keeps_failing_needs_a_person(home: Path, retries: int, persistent: bool) -> None:
    scenes.failed_batch(home, retries=retries)
    found = facts(home)
    (batch,) = found["set_aside"]
    assert (batch["source"], batch["documents"], batch["retries"]) == ("desk", 1, retries)
    assert (batch["persistent"], batch["error"]) == (persistent, "TimeoutError: too slow")
    wanted = ("failed_batches", "onward batches list")
    assert (wanted in needs(home)) == persistent


@pytest.mark.parametrize("sets_aside", (False, True))
def test_what_is_due_to_be_retried_needs_a_worker(home: Path, sets_aside: bool) -> None:
    scenes.overdue(home, "note-1", "note-2", sets_aside=sets_aside)
    assert needs(home) == [("overdue", WORKER)]
    assert facts(home)["overdue"] == {"documents": 0 if sets_aside else 2, "in_batches": 2 if sets_aside else 0}
    (check,) = (one for one in facts(home, "doctor")["checks"] if one["name"] == "retry job")
    assert (check["level"], check["remedy"]) == ("warning", WORKER)
    app = scenes.app_of(home)
    app.store.register_worker("anna", {})
    app.close()
    assert needs(home) == []


def test_what_waits_for_an_outage_is_not_due(home: Path) -> None:
    scenes.overdue(home, "note-1", sets_aside=True)
    app = scenes.app_of(home, seconds_ago=scenes.HOUR)
    app.add(scenes.Note(id="note-2", text="never begun"))
    app.close()
    assert facts(home)["overdue"] == {"documents": 1, "in_batches": 1}
    app = scenes.app_of(home)
    app.store.open_breaker("lamp", "no light")
    app.close()
    assert facts(home)["overdue"] == {"documents": 0, "in_batches": 0}


# -- what else there is


def test_the_commonest_failures_are_reported_with_the_probable_cause(home: Path) -> None:
    scenes.run(scenes.failing_app(home, KeyError("price")), *(f"note-{number}" for number in range(6)))
    (group,) = facts(home)["failures"]
    assert (group["documents"], group["service"], group["error"]) == (6, "reading", "KeyError: 'price'")
    assert group["verdict"] == "bug or bad deploy"
    assert onward(home, "failures", "show", group["fingerprint"]).exit_code == 0


def test_failures_beyond_the_commonest_are_counted(home: Path) -> None:
    scenes.many_failures(home)
    found = facts(home)
    assert (len(found["failures"]), found["other_failures"]) == (3, 6)


def test_the_documents_of_any_app_are_counted_by_collection(home: Path) -> None:
    scenes.run(scenes.failing_app(home, KeyError("price")), "note-1")
    assert facts(home)["documents"] == {"notes": {"failed": 1}}


def test_programs_get_all_sources_and_people_the_first(home: Path) -> None:
    scenes.many_sources(home)
    found = facts(home)["sources"]
    assert [one["source"] for one in found] == [f"desk-{number:02}" for number in range(14)]
    assert {(one["status"], one["documents"]["notes"]) for one in found} == {("completed", 1)}
    shown = onward(home, "status").stdout
    assert ("desk-09  " in shown, "desk-10" in shown) == (True, False)


def test_a_table_that_does_not_fit_is_printed_in_words(home: Path) -> None:
    scenes.run(scenes.failing_app(home, KeyError("price")), "note-1")
    lines = onward(home, "status", more={"COLUMNS": "40"}).stdout.splitlines()
    assert "notes: failed 1" in lines
    assert "reading: dead letters 1" in lines
