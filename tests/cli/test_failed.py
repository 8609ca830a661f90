"""`onward failed` lists dead letters, and puts them back, archives or removes them, for any app's store."""

from __future__ import annotations

import base64
import json
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onward.cli.action_run import PARTIAL
from onward.ledger.store_errors import StoreUnavailable
from onward.model.failures import Failure
from onward.model.ledger import Charge, DeadLettered, Processed
from onward.runtime.publisher import ForeignMessage, enter_foreign_events
from tests.cli import scenes
from tests.cli.scenes import give_up, opened, work_during_sleep
from tests.support.command_runs import ESCAPE, onward
from tests.support.store_pages import Stage, failure


@pytest.fixture
def queue(home: Path) -> Path:
    scenes.failed_queues(home)
    return home


def facts(home: Path, *args: str, code: int = 0) -> Any:
    result = onward(home, "failed", *args, "--json")
    assert result.exit_code == code, result.output
    return json.loads(result.stdout)


def rows(home: Path, **wanted: Any) -> list[int]:
    with opened(home) as stage:
        return [one.row for one in stage.store.find_dead_letters(**wanted)]


def actions(home: Path) -> list[tuple[str, dict[str, Any], int]]:
    with opened(home) as stage:
        return [(one.action, one.about, one.touched) for one in stage.store.actions()]


# -- looking


def times_as_numbers(facts: Any, path: str = "") -> list[str]:
    """Where a point in time of our days is written as a number."""
    if isinstance(facts, dict):
        return [found for name, one in facts.items() for found in times_as_numbers(one, f"{path}.{name}")]
    if isinstance(facts, list):
        return [found for one in facts for found in times_as_numbers(one, path)]
    is_number = isinstance(facts, int | float) and not isinstance(facts, bool)
    return [path] if is_number and 1.5e9 < facts < 2.5e9 else []


@pytest.mark.parametrize(
    "command",
    (
        ("failed", "list", "--json"),
        ("failed", "list", "reading.failed", "--json"),
        ("failed", "inspect", "reading.failed", "--json"),
        ("failed", "inspect", "events.failed", "--json"),
        ("failed", "export", "--all"),
        ("documents", "export"),
        ("documents", "list", "--json"),
        ("show", "pages/page-a", "--json"),
        ("failures", "list", "--json"),
        ("failures", "show", "valueerror", "--json"),
        ("batches", "--json"),
        ("status", "--json"),
        ("actions", "--json"),
    ),
    ids=" ".join,
)
def test_no_time_leaves_as_a_number(queue: Path, command: tuple[str, ...]) -> None:
    scenes.failed_batches(queue)
    onward(queue, "failed", "archive", "listening.failed")
    result = onward(queue, *command)
    assert result.exit_code == 0, result.output
    lines = result.stdout.splitlines() if command[0] == "documents" or "export" in command else [result.stdout]
    assert times_as_numbers([json.loads(line) for line in lines]) == []
    assert "+00:00" not in result.stdout


def test_queues_are_listed_with_their_most_frequent_error(queue: Path) -> None:
    found = {one["queue"]: one for one in facts(queue, "list")}
    assert {
        name: (one["service"], one["dead_letters"], one["most_frequent_error"]) for name, one in found.items()
    } == {
        "reading.failed": ("reading", 3, "ValueError: it broke"),
        "listening.failed": ("listening", 1, "ValueError: deaf"),
        "events.failed": ("", 1, "ValueError: not JSON"),
    }
    assert {one["archived"] for one in found.values()} == {0}
    assert found["reading.failed"]["oldest"] < found["reading.failed"]["newest"]


def test_a_store_without_failures_has_empty_queues(home: Path) -> None:
    with opened(home):
        pass
    assert facts(home, "list") == facts(home, "list", "reading") == []


@pytest.mark.parametrize("name", ("reading.failed", "reading"))
def test_the_dead_letters_of_a_queue_are_listed_by_its_name_or_its_service(queue: Path, name: str) -> None:
    found = facts(queue, "list", name)
    assert [one["documents"] for one in found] == [
        [{"collection": "pages", "id": f"page-{id}"}] for id in ("a", "b", "c")
    ]
    first = found[0]
    assert (first["row"], first["attempt_count"]) == (rows(queue)[0], 1)
    assert (first["abandoned_reason"], first["error_type"]) == ("max_attempts_exceeded", "ValueError")
    assert first["last_error"] == "it broke"


def test_a_limit_shortens_the_list(queue: Path) -> None:
    assert len(facts(queue, "list", "reading", "--limit", "2")) == 2
    assert len(facts(queue, "list", "--limit", "2")) == 2
    text = onward(queue, "failed", "list", "reading", "--limit", "2").stdout
    assert ("page-b" in text, "page-c" in text, "--limit 3" in text) == (True, False, True)


def test_a_dead_letter_is_shown_whole_and_harmless(queue: Path) -> None:
    row = rows(queue, error_type="KeyError")[0]
    (found,) = facts(queue, "inspect", str(row))
    assert (found["row"], found["failed_queue"], found["service_name"]) == (row, "reading.failed", "reading")
    assert (found["abandoned_reason"], found["attempt_count"], found["round"]) == ("max_attempts_exceeded", 1, 1)
    assert found["documents"] == [{"collection": "pages", "id": "page-c"}]
    assert found["original_event"]["data"]["page_ids"] == ["page-c"]
    assert found["errors"][-1]["traceback"] == "Traceback: here"
    text = onward(queue, "failed", "inspect", str(row)).stdout
    assert "KeyError: no [bold]luck[/bold] [31m password=***" in text
    assert ESCAPE not in text
    assert "hunter2" not in text


def test_bytes_that_were_no_event_are_shown_with_escapes(queue: Path) -> None:
    assert "\\xff\\x1b[31m" in onward(queue, "failed", "inspect", "events.failed").stdout
    (found,) = facts(queue, "inspect", "events.failed")
    assert base64.b64decode(found["raw"]) == b"\xff\x1b[31m"


def test_a_message_of_a_broker_is_shown_with_its_properties_but_no_secret(home: Path) -> None:
    headers = {"x-try": 2, "authorization": "Bearer 0123456789abcdef"}
    properties = {"content_type": "application/json", "headers": headers, "routing_key": "json.parsed"}
    app = scenes.failing_app(home, KeyError("no"))
    with closing(app):
        message = b'{"event_type": "NoteWritten", "version": "1.0", "data": {}}'
        enter_foreign_events(app.store, app.registry.events(), [ForeignMessage(message, properties=properties)])
    (found,) = facts(home, "inspect", "reading.failed")
    assert (found["original_event"]["version"], base64.b64decode(found["raw"])) == ("1.0", message)
    assert found["properties"] == properties | {"headers": {"x-try": 2, "authorization": "***"}}


def test_inspecting_a_queue_is_bounded(queue: Path) -> None:
    assert [one["row"] for one in facts(queue, "inspect", "reading", "--limit", "1")] == rows(queue)[:1]


def test_an_export_has_a_line_with_every_field_for_each_dead_letter(queue: Path, tmp_path: Path) -> None:
    result = onward(queue, "failed", "export", "--all")
    letters = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["row"] for one in letters] == rows(queue)
    assert set(letters[0]) == {
        *("row", "failed_queue", "original_event", "idempotency_key", "attempt_count", "last_error"),
        *("error_type", "abandoned_reason", "service_name", "timestamp", "errors", "fingerprint", "deaths"),
        *("round", "documents", "raw", "properties"),
    }
    assert letters[0]["original_event"]["data"] == {"page_ids": ["page-a"], "found_by": ""}
    assert "hunter2" not in result.stdout
    file = tmp_path / "letters.ndjson"
    written = onward(queue, "failed", "export", "--all", "--output", str(file))
    assert (written.exit_code, written.stdout) == (0, "")
    assert file.read_text() == result.stdout
    assert [one.name for one in tmp_path.iterdir() if "ndjson" in one.name] == ["letters.ndjson"]
    assert onward(queue, "failed", "export", "--all", "--output", "-").stdout == result.stdout
    assert actions(queue) == [], "looking changes nothing"


# -- putting back


def test_a_queue_goes_back_and_that_is_logged(queue: Path) -> None:
    assert facts(queue, "requeue", "reading", "--rate", "1000")["requeued"] == 3
    assert rows(queue, service="reading") == []
    assert actions(queue) == [("failed requeue", {"queue": "reading", "rate": 1000.0}, 3)]
    assert facts(queue, "requeue", "reading")["requeued"] == 0
    assert len(actions(queue)) == 1, "nothing was changed"


@pytest.mark.parametrize(
    ("filters", "count"),
    (
        (("--error-type", "KeyError"), 1),
        (("--group", "keyerror"), 1),
        (("--group", "keyer"), 1),
        (("--since", "tomorrow"), 0),
        (("--since", "yesterday"), 3),
        (("--since", "2h"), 3),
        (("--document", "pages/page-b"), 1),
        (("--document", "page-b"), 1),
        (("--document", "pages/never came"), 0),
        (("--limit", "2"), 2),
    ),
)
def test_filters_choose_what_goes_back(queue: Path, filters: tuple[str, ...], count: int) -> None:
    assert facts(queue, "requeue", "reading", *filters)["requeued"] == count
    assert len(rows(queue, service="reading")) == 3 - count


def test_a_known_error_type_of_which_nothing_is_left_is_no_mistake(queue: Path) -> None:
    with opened(queue) as stage:
        stage.bring("page-d")
        error = Failure(stage.store.now(), "OSError", "gone", "oserror")
        stage.settle(stage.take(), DeadLettered(["page-d"], failure=error, charge=Charge.TRY))
    for left in (1, 0):
        assert facts(queue, "requeue", "reading", "--error-type", "OSError")["requeued"] == left


def test_a_dead_letter_goes_back_by_its_number(queue: Path) -> None:
    first, *others = rows(queue)
    assert onward(queue, "failed", "requeue", str(first)).exit_code == 0
    assert rows(queue) == others


def test_a_dry_run_counts_what_would_go_back_and_changes_nothing(queue: Path) -> None:
    before = rows(queue)
    found = facts(queue, "requeue", "--all", "--dry-run")
    assert (found["dry_run"], found["requeued"], len(found["refused"])) == (True, 4, 1)
    assert found["queues"] == {"reading.failed": 3, "listening.failed": 1}
    assert (rows(queue), actions(queue)) == (before, [])


def test_what_has_recovered_is_skipped(home: Path) -> None:
    scenes.recovered(home)
    for dry_run in (("--dry-run",), ()):
        found = facts(home, "requeue", "--all", *dry_run)
        assert (found["requeued"], found["skipped_recovered"]) == (0, 1)
    assert actions(home) == []


def test_what_cannot_go_back_is_refused_and_the_exit_code_says_partial(queue: Path) -> None:
    found = facts(queue, "requeue", "--all", code=PARTIAL)
    (refused,) = found["refused"]
    assert (found["requeued"], refused["row"]) == (4, rows(queue)[0])
    assert "its bytes still cannot be read as an event: not JSON" in refused["reason"]
    assert found["unreadable"] == 1


def test_the_rest_follows_a_canary_that_is_processed(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first = rows(queue)[0]
    work_during_sleep(queue, monkeypatch, lambda stage: stage.settle(stage.take(), Processed(["page-a"])))
    result = onward(queue, "failed", "requeue", "reading", "--canary", "1", "--json")
    found = json.loads(result.stdout)
    assert (result.exit_code, found["requeued"], found["left_untouched"]) == (0, 3, 0)
    assert (found["canary"]["outcome"], found["canary"]["rows"]) == ("passed", [first])
    assert "onward worker" in result.stderr, "no worker is alive, and it waits for one"


def test_a_canary_is_logged_before_it_is_waited_for(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[list[int]] = []

    def settle(stage: Stage) -> None:
        logged.append([one.touched for one in stage.store.actions()])
        stage.settle(stage.take(), Processed(["page-a"]))

    work_during_sleep(queue, monkeypatch, settle)
    assert onward(queue, "failed", "requeue", "reading", "--canary", "1").exit_code == 0
    assert logged == [[1]]
    assert [one[2] for one in actions(queue)] == [2, 1], "then the rest"


def test_a_canary_that_fails_again_stops_the_rest(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(stage: Stage) -> None:
        stage.settle(stage.take(), DeadLettered(["page-a"], failure=failure("still broken")))

    first = rows(queue)[0]
    work_during_sleep(queue, monkeypatch, fail)
    found = facts(queue, "requeue", "reading", "--canary", "1", code=1)
    assert (found["canary"]["outcome"], found["requeued"], found["left_untouched"]) == ("failed", 1, 2)
    assert found["canary"]["failures"] == [
        {"row": first, "document": ["pages", "page-a"], "error": "ValueError: still broken"}
    ]
    assert len(rows(queue, service="reading")) == 3


def test_ctrl_c_leaves_the_rest_and_reports_what_was_done(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    found = facts(queue, "requeue", "reading", "--rate", "1", code=130)
    assert (found["requeued"], found["left_untouched"], found["interrupted"]) == (1, 2, True)
    assert len(rows(queue, service="reading")) == 2
    assert actions(queue)[0][2] == 1


def test_a_store_that_goes_away_is_reported_with_what_was_done(
    queue: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(seconds: float) -> None:
        raise StoreUnavailable("the disk was pulled out")

    monkeypatch.setattr(time, "sleep", lose)
    result = onward(queue, "failed", "requeue", "reading", "--rate", "1", "--json")
    assert result.exit_code == 1
    found = json.loads(result.stdout)
    assert (found["requeued"], found["left_untouched"], found["interrupted"]) == (1, 2, True)
    assert "the disk was pulled out" in result.stderr
    assert actions(queue)[0][2] == 1


# -- archiving and removing


def test_archived_dead_letters_are_kept_and_come_back(queue: Path) -> None:
    before, chosen = rows(queue), ("reading", "--error-type", "KeyError")
    assert (facts(queue, "archive", *chosen, "--dry-run")["archived"], rows(queue)) == (1, before)
    assert facts(queue, "archive", *chosen)["archived"] == 1
    (row,) = rows(queue, archived=True)
    (listed,) = (one for one in facts(queue, "list") if one["queue"] == "reading.failed")
    assert (listed["dead_letters"], listed["archived"]) == (2, 1)
    (listed,) = facts(queue, "list", "--archived")
    assert listed["most_frequent_error"].startswith("KeyError: ")
    assert [one["row"] for one in facts(queue, "list", "reading", "--archived")] == [row]
    assert len(onward(queue, "failed", "export", "--all", "--archived").stdout.splitlines()) == 1
    assert facts(queue, "inspect", str(row)) == facts(queue, "inspect", str(row), "--archived")
    other = onward(queue, "failed", "inspect", str(rows(queue)[0]), "--archived")
    assert (other.exit_code, other.stdout) == (2, "")
    assert "is not archived" in other.stderr
    refused = onward(queue, "failed", "requeue", str(row))
    assert (refused.exit_code, "is archived" in refused.stderr) == (2, True)
    assert (facts(queue, "archive", str(row), "--restore")["restored"], rows(queue)) == (1, before)
    assert [one[:2] for one in actions(queue)] == [
        ("failed archive", {"queue": str(row), "restore": True}),
        ("failed archive", {"queue": "reading", "error_type": "KeyError"}),
    ]


def test_nothing_is_removed_without_confirmation(queue: Path) -> None:
    before = rows(queue)
    result = onward(queue, "failed", "purge", "reading")
    assert result.exit_code == 2
    assert "3 dead letters" in result.stderr
    assert "--confirm" in result.stderr
    assert onward(queue, "failed", "purge", "reading", "--confirm", "--dry-run").exit_code == 0
    assert (rows(queue), actions(queue)) == (before, [])


def test_what_is_confirmed_is_removed_and_logged(queue: Path) -> None:
    assert facts(queue, "purge", "reading", "--limit", "2", "--confirm")["removed"] == 2
    assert len(rows(queue, service="reading")) == 1
    assert actions(queue) == [("failed purge", {"queue": "reading", "limit": 2}, 2)]
    with opened(queue) as stage:
        assert (stage.state("page-a").status, stage.state("page-a").dead_letter) == ("pending", None)


def test_what_is_archived_is_removed_apart(queue: Path) -> None:
    onward(queue, "failed", "archive", "reading", "--limit", "1")
    found = facts(queue, "purge", "--all", "--archived", "--confirm")
    assert found == {"dry_run": False, "removed": 1, "interrupted": False}
    assert len(rows(queue)) == 4


def test_only_what_has_recovered_may_be_removed(home: Path) -> None:
    with opened(home) as stage:
        give_up(stage, "page-a")
    scenes.recovered(home)
    row = str(rows(home)[0])
    for option in ("--dry-run", "--confirm"):
        assert facts(home, "purge", row, "--recovered", option)["removed"] == 0
    assert actions(home) == [], "nothing was done"
    assert facts(home, "purge", "--all", "--recovered", "--confirm")["removed"] == 1
    assert [str(one) for one in rows(home)] == [row]


# -- wrong usage


@pytest.mark.parametrize("command", ("list", "inspect", "export", "requeue", "purge", "archive"))
def test_an_unknown_queue_is_refused_with_the_known_ones(queue: Path, command: str) -> None:
    result = onward(queue, "failed", command, "nothing.failed")
    assert result.exit_code == 2
    assert "'nothing.failed'" in result.stderr
    assert "  listening.failed\n  reading.failed\n  events.failed\n" in result.stderr


@pytest.mark.parametrize(
    ("args", "problem"),
    (
        (("requeue",), "give a failed queue, or --all"),
        (("purge", "--confirm"), "give a failed queue, or --all"),
        (("requeue", "reading", "--all"), "not both"),
        (("requeue", "9999"), "there is no dead letter 9999"),
        (("inspect", "99999999999999999999999"), "there is no dead letter"),
        (("requeue", "1", "--limit", "1"), "1 is one dead letter"),
        (("requeue", "reading", "--rate", "0"), "--rate"),
        (("requeue", "reading", "--rate", "nan"), "nan is no rate"),
        (("requeue", "reading", "--rate", "inf"), "inf is no rate"),
        (("requeue", "reading", "--canary", "0"), "--canary"),
        (("requeue", "reading", "--since", "noon"), "'noon' is no date"),
        (
            ("requeue", "reading", "--error-type", "keyerror"),
            "has the error type 'keyerror'; there are: KeyError,",
        ),
        (("archive", "--all", "--error-type", ""), "--error-type is empty: give a type"),
        (("purge", "--all", "--group", "", "--confirm"), "--group is empty: give a fingerprint"),
        (("requeue", "--all", "--document", " "), "--document is empty: give an id"),
        (("export", "--all", "--output", ""), "--output is empty: give the name of a new file"),
        (("list", "reading", "--limit", "9" * 20), "is not in the range"),
        (("inspect", "reading", "--limit", "9" * 20), "is not in the range"),
        (("requeue", "reading", "--limit", "9" * 20), "is not in the range"),
        (("requeue", "reading", "--document", "p"), "too short"),
        (("archive", "1", "--restore"), "dead letter 1 is not archived"),
    ),
)
def test_wrong_usage_is_refused(queue: Path, args: tuple[str, ...], problem: str) -> None:
    before = rows(queue)
    result = onward(queue, "failed", *args)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert rows(queue) == before


def test_an_unknown_failure_group_is_refused(queue: Path) -> None:
    result = onward(queue, "failed", "requeue", "--all", "--group", "nosuchgroup")
    assert result.exit_code == 2
    assert "'nosuchgroup'" in result.stderr
