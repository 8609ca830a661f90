"""`onward failed` shows what was given up, and puts it back, away, or out, for any app's store."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from onward import App
from onward.cli.action_run import PARTIAL
from onward.ledger.store_errors import StoreUnavailable
from onward.model.failures import Failure
from onward.model.ledger import Charge, DeadLettered, Processed
from onward.settings import load_settings
from tests.support.command_runs import ESCAPE, onward
from tests.support.store_pages import Clock, Stage, failure

EVIL = f"no [bold]luck[/bold] {ESCAPE}[31m password=hunter2"


@contextmanager
def opened(home: Path) -> Iterator[Stage]:
    """The store as a worker would open it."""
    app = App(settings=load_settings({"ONWARD_HOME": str(home)}))
    try:
        yield Stage(app.store, Clock())
    finally:
        app.close()


def give_up(stage: Stage, *ids: str, message: str = "it broke", error_type: str = "ValueError") -> int:
    stage.bring(*ids)
    delivery = stage.take()
    error = Failure(stage.store.now(), error_type, message, error_type.lower(), traceback="Traceback: here")
    stage.settle(delivery, DeadLettered(ids, failure=error, charge=Charge.TRY))
    return delivery.row


@pytest.fixture
def queue(home: Path) -> Path:
    """Three letters of a service that reads, one of another, and one that was for nobody."""
    with opened(home) as stage:
        give_up(stage, "page-a")
        give_up(stage, "page-b")
        give_up(stage, "page-c", message=EVIL, error_type="KeyError")
        stage.store.publish([stage.noticed("x")])
        stage.settle(stage.take(service="listening"), DeadLettered(failure=failure("deaf")))
        stage.store.publish_malformed(b"\xff\x1b[31m", failure("not JSON"))
    return home


def rows(home: Path, **wanted: Any) -> list[int]:
    with opened(home) as stage:
        return [one.row for one in stage.store.find_dead_letters(**wanted)]


def actions(home: Path) -> list[tuple[str, dict[str, Any], int]]:
    with opened(home) as stage:
        return [(one.action, one.about, one.touched) for one in stage.store.actions()]


# -- looking


def test_queues_are_listed_with_their_most_frequent_error(queue: Path) -> None:
    result = onward(queue, "failed", "list")
    assert result.exit_code == 0
    assert "reading.failed  (reading)  3 dead letters\n    mostly ValueError: it broke\n" in result.stdout
    assert "listening.failed  (listening)  1 dead letter\n    mostly ValueError: deaf\n" in result.stdout
    assert "events.failed  1 dead letter\n    mostly ValueError: not JSON\n" in result.stdout
    facts = {one["queue"]: one for one in json.loads(onward(queue, "failed", "list", "--json").stdout)}
    assert (facts["reading.failed"]["letters"], facts["reading.failed"]["archived"]) == (3, 0)
    assert facts["reading.failed"]["oldest"] < facts["reading.failed"]["newest"]


def test_a_store_without_failures_says_so(home: Path) -> None:
    with opened(home):
        pass
    assert onward(home, "failed", "list").stdout == "No failed queue has a letter.\n"
    assert json.loads(onward(home, "failed", "list", "--json").stdout) == []
    assert onward(home, "failed", "list", "reading").stdout == "reading.failed is empty.\n"


@pytest.mark.parametrize("name", ("reading.failed", "reading"))
def test_the_letters_of_a_queue_are_listed_by_its_name_or_its_service(queue: Path, name: str) -> None:
    result = onward(queue, "failed", "list", name)
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert [line.split()[3] for line in lines[:3]] == ["pages/page-a", "pages/page-b", "pages/page-c"]
    assert lines[0].endswith("1 try, max_attempts_exceeded  ValueError: it broke")
    assert lines[3] == f"To look at one: onward failed inspect {rows(queue)[0]}"
    facts = json.loads(onward(queue, "failed", "list", name, "--json", "--limit", "2").stdout)
    assert [one["documents"] for one in facts] == [
        [{"collection": "pages", "id": "page-a"}],
        [{"collection": "pages", "id": "page-b"}],
    ]


def test_a_longer_queue_says_that_there_is_more(queue: Path) -> None:
    result = onward(queue, "failed", "list", "reading", "--limit", "2")
    assert "page-c" not in result.stdout
    assert "2 of 3 shown; --limit 3 shows more.\n" in result.stdout
    queues = onward(queue, "failed", "list", "--limit", "1").stdout
    assert "1 of 3 shown; --limit 3 shows more.\n" in queues
    assert ("listening.failed" in queues, "reading.failed" in queues) == (True, False)
    assert len(json.loads(onward(queue, "failed", "list", "--limit", "2", "--json").stdout)) == 2


def test_a_letter_is_shown_whole_and_harmless(queue: Path) -> None:
    row = rows(queue, error_type="KeyError")[0]
    result = onward(queue, "failed", "inspect", str(row))
    assert result.exit_code == 0
    for part in (
        f"Dead letter {row} in reading.failed",
        "max_attempts_exceeded, after 1 try in round 1",
        "documents pages/page-c",
        '"page-c"',
        "KeyError: no [bold]luck[/bold] [31m password=***",
        "Traceback: here",
    ):
        assert part in result.stdout
    assert ESCAPE not in result.stdout
    assert "hunter2" not in result.stdout


def test_bytes_that_were_no_event_are_shown_as_far_as_they_can_be(queue: Path) -> None:
    result = onward(queue, "failed", "inspect", "events.failed")
    assert "raw, 6 bytes:\n    \\xff\\x1b[31m\n" in result.stdout
    (facts,) = json.loads(onward(queue, "failed", "inspect", "events.failed", "--json").stdout)
    assert base64.b64decode(facts["raw"]) == b"\xff\x1b[31m"


def test_inspecting_a_queue_is_bounded(queue: Path) -> None:
    result = onward(queue, "failed", "inspect", "reading", "--limit", "1")
    assert result.stdout.count("Dead letter ") == 1
    assert result.stdout.endswith("1 of 3 shown; --limit 3 shows more.\n")


def test_an_export_has_every_field_a_line_a_letter(queue: Path, tmp_path: Path) -> None:
    result = onward(queue, "failed", "export", "--all")
    letters = [json.loads(line) for line in result.stdout.splitlines()]
    assert [one["row"] for one in letters] == rows(queue)
    assert set(letters[0]) == {
        *("row", "failed_queue", "original_event", "idempotency_key", "attempt_count", "last_error"),
        *("error_type", "abandoned_reason", "service_name", "timestamp", "errors", "fingerprint", "deaths"),
        *("round", "documents", "raw"),
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
    result = onward(queue, "failed", "requeue", "reading", "--rate", "1000")
    assert (result.exit_code, result.stdout.splitlines()[0]) == (0, "3 dead letters put back.")
    assert rows(queue, service="reading") == []
    assert actions(queue) == [("failed requeue", {"queue": "reading", "rate": 1000.0}, 3)]
    again = onward(queue, "failed", "requeue", "reading")
    assert (again.exit_code, again.stdout) == (0, "Nothing to put back in reading.failed.\n")
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
    facts = json.loads(onward(queue, "failed", "requeue", "reading", *filters, "--json").stdout)
    assert facts["requeued"] == count
    assert len(rows(queue, service="reading")) == 3 - count


def test_an_error_type_of_which_nothing_is_left_is_none_that_is_misspelt(queue: Path) -> None:
    with opened(queue) as stage:
        stage.bring("page-d")
        error = Failure(stage.store.now(), "OSError", "gone", "oserror")
        stage.settle(stage.take(), DeadLettered(["page-d"], failure=error, charge=Charge.TRY))
    for left in (1, 0):
        result = onward(queue, "failed", "requeue", "reading", "--error-type", "OSError", "--json")
        assert (result.exit_code, json.loads(result.stdout)["requeued"]) == (0, left)


def test_a_letter_goes_back_by_its_number(queue: Path) -> None:
    first, *others = rows(queue)
    assert onward(queue, "failed", "requeue", str(first)).exit_code == 0
    assert rows(queue) == others


def test_a_dry_run_says_what_would_go_back_and_changes_nothing(queue: Path) -> None:
    before = rows(queue)
    result = onward(queue, "failed", "requeue", "--all", "--dry-run")
    assert result.exit_code == 0
    assert result.stdout.startswith("4 dead letters of all failed queues would go back.\nreading.failed: 3; ")
    facts = json.loads(onward(queue, "failed", "requeue", "--all", "--dry-run", "--json").stdout)
    assert (facts["queues"], len(facts["refused"])) == ({"reading.failed": 3, "listening.failed": 1}, 1)
    assert (rows(queue), actions(queue)) == (before, [])


@pytest.mark.parametrize(("canary", "first"), (("1", ", 1 of them first"), ("3", ""), ("99", "")))
def test_a_dry_run_says_how_many_would_go_first(queue: Path, canary: str, first: str) -> None:
    result = onward(queue, "failed", "requeue", "reading", "--canary", canary, "--dry-run")
    assert result.stdout.startswith(f"3 dead letters of reading.failed would go back{first}.\n")


def test_what_has_recovered_is_skipped(home: Path) -> None:
    with opened(home) as stage:
        stage.publish("late")
        stage.settle(stage.take(), DeadLettered(["late"], failure=failure()))
        stage.bring("late")
        stage.settle(stage.take(), Processed(["late"]))
    for dry_run in (("--dry-run",), ()):
        facts = json.loads(onward(home, "failed", "requeue", "--all", *dry_run, "--json").stdout)
        assert (facts["requeued"], facts["skipped_recovered"]) == (0, 1)
    assert actions(home) == []


def test_what_cannot_go_back_is_told_by_the_exit_code(queue: Path) -> None:
    result = onward(queue, "failed", "requeue", "--all")
    assert result.exit_code == PARTIAL
    assert "4 dead letters put back." in result.stdout
    assert "it was for no service" in result.stdout


def worker(home: Path, monkeypatch: pytest.MonkeyPatch, settle: Callable[[Stage], object]) -> None:
    """Somebody works while the command sleeps."""

    def sleep(seconds: float) -> None:
        with opened(home) as stage:
            settle(stage)

    monkeypatch.setattr(time, "sleep", sleep)


def test_the_rest_follows_a_canary_that_is_done(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    worker(queue, monkeypatch, lambda stage: stage.settle(stage.take(), Processed(["page-a"])))
    result = onward(queue, "failed", "requeue", "reading", "--canary", "1")
    assert result.exit_code == 0
    assert result.stdout.startswith("The first one went well.\n3 dead letters put back.\n")
    assert (
        "canary: 0 of 1 done; no worker is alive; start one: onward worker (with --app, for an app of your own)"
        in result.stderr
    )


def test_a_canary_is_logged_before_it_is_waited_for(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    logged: list[list[int]] = []

    def settle(stage: Stage) -> None:
        logged.append([one.touched for one in stage.store.actions()])
        stage.settle(stage.take(), Processed(["page-a"]))

    worker(queue, monkeypatch, settle)
    assert onward(queue, "failed", "requeue", "reading", "--canary", "1").exit_code == 0
    assert logged == [[1]]
    assert [one[2] for one in actions(queue)] == [2, 1], "then the rest"


def test_a_canary_that_fails_again_stops_the_rest(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(stage: Stage) -> None:
        stage.settle(stage.take(), DeadLettered(["page-a"], failure=failure("still broken")))

    worker(queue, monkeypatch, fail)
    result = onward(queue, "failed", "requeue", "reading", "--canary", "1")
    assert result.exit_code == 1
    assert "Stopped by the canary: 1 of 1 failed again: ValueError: still broken" in result.stdout
    assert "pages/page-a: ValueError: still broken" in result.stdout
    assert "2 dead letters left untouched." in result.stdout
    assert len(rows(queue, service="reading")) == 3


def test_ctrl_c_leaves_the_rest_and_tells_what_was_done(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(seconds: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(time, "sleep", interrupt)
    result = onward(queue, "failed", "requeue", "reading", "--rate", "1")
    assert result.exit_code == 130
    assert "The same command goes on with the rest." in result.stdout
    assert "1 dead letter put back.\n2 dead letters left untouched.\n" in result.stdout
    assert len(rows(queue, service="reading")) == 2
    assert actions(queue)[0][2] == 1


def test_a_store_that_goes_away_is_told_with_what_was_done(queue: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def lose(seconds: float) -> None:
        raise StoreUnavailable("the disk was pulled out")

    monkeypatch.setattr(time, "sleep", lose)
    result = onward(queue, "failed", "requeue", "reading", "--rate", "1")
    assert result.exit_code == 1
    assert "1 dead letter put back.\n2 dead letters left untouched.\n" in result.stdout
    assert "the disk was pulled out" in result.stderr
    assert actions(queue)[0][2] == 1


# -- putting away and removing


def test_archived_letters_are_kept_and_come_back(queue: Path) -> None:
    before = rows(queue)
    preview = onward(queue, "failed", "archive", "reading", "--error-type", "KeyError", "--dry-run", "--json")
    assert (json.loads(preview.stdout)["archived"], rows(queue)) == (1, before)
    result = onward(queue, "failed", "archive", "reading", "--error-type", "KeyError")
    assert (result.exit_code, result.stdout) == (0, "1 dead letter of reading.failed archived.\n")
    assert "2 dead letters, 1 archived" in onward(queue, "failed", "list").stdout
    assert "mostly KeyError" in onward(queue, "failed", "list", "--archived").stdout
    assert len(onward(queue, "failed", "export", "--all", "--archived").stdout.splitlines()) == 1
    (row,) = rows(queue, archived=True)
    assert f"Dead letter {row} in" in onward(queue, "failed", "inspect", str(row)).stdout
    assert f"Dead letter {row} in" in onward(queue, "failed", "inspect", str(row), "--archived").stdout
    other = onward(queue, "failed", "inspect", str(rows(queue)[0]), "--archived")
    assert (other.exit_code, other.stdout) == (2, "")
    assert "is not archived" in other.stderr
    refused = onward(queue, "failed", "requeue", str(row))
    assert (refused.exit_code, "is archived" in refused.stderr) == (2, True)
    restored = onward(queue, "failed", "archive", str(row), "--restore")
    assert (restored.stdout, rows(queue)) == (f"Dead letter {row} restored.\n", before)
    assert [one[:2] for one in actions(queue)] == [
        ("failed archive", {"queue": str(row), "restore": True}),
        ("failed archive", {"queue": "reading", "error_type": "KeyError"}),
    ]


def test_nothing_is_removed_without_confirmation(queue: Path) -> None:
    before = rows(queue)
    result = onward(queue, "failed", "purge", "reading")
    assert result.exit_code == 2
    assert "this removes 3 dead letters of reading.failed for ever; add --confirm" in result.stderr
    assert onward(queue, "failed", "purge", "reading", "--confirm", "--dry-run").exit_code == 0
    assert (rows(queue), actions(queue)) == (before, [])


def test_what_is_confirmed_is_removed_and_logged(queue: Path) -> None:
    result = onward(queue, "failed", "purge", "reading", "--limit", "2", "--confirm")
    assert (result.exit_code, result.stdout) == (0, "2 dead letters of reading.failed removed.\n")
    assert len(rows(queue, service="reading")) == 1
    assert actions(queue) == [("failed purge", {"queue": "reading", "limit": 2}, 2)]
    with opened(queue) as stage:
        assert (stage.state("page-a").status, stage.state("page-a").dead_letter) == ("pending", None)


def test_what_is_archived_is_removed_apart(queue: Path) -> None:
    onward(queue, "failed", "archive", "reading", "--limit", "1")
    facts = json.loads(onward(queue, "failed", "purge", "--all", "--archived", "--confirm", "--json").stdout)
    assert facts == {"dry_run": False, "removed": 1, "interrupted": False}
    assert len(rows(queue)) == 4


def test_only_what_has_recovered_may_be_removed(home: Path) -> None:
    with opened(home) as stage:
        give_up(stage, "page-a")
        stage.publish("late")
        stage.settle(stage.take(), DeadLettered(["late"], failure=failure()))
        stage.bring("late")
        stage.settle(stage.take(), Processed(["late"]))
    row = str(rows(home)[0])
    alone = onward(home, "failed", "purge", row, "--recovered", "--dry-run")
    assert alone.stdout.endswith(f"Dead letter {row} is about something unfinished: it stays.\n")
    alone = onward(home, "failed", "purge", row, "--recovered", "--confirm")
    assert alone.stdout == f"Dead letter {row} is about something unfinished: it stays.\n"
    assert actions(home) == [], "nothing was done"
    result = onward(home, "failed", "purge", "--all", "--recovered", "--confirm")
    assert result.stdout == "1 dead letter of all failed queues removed.\n"
    assert len(rows(home)) == 1


# -- wrong usage


@pytest.mark.parametrize("command", ("list", "inspect", "export", "requeue", "purge", "archive"))
def test_an_unknown_queue_is_answered_with_those_that_are(queue: Path, command: str) -> None:
    result = onward(queue, "failed", command, "nothing.failed")
    assert result.exit_code == 2
    assert "there is no failed queue 'nothing.failed'" in result.stderr
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
def test_wrong_usage_is_told(queue: Path, args: tuple[str, ...], problem: str) -> None:
    before = rows(queue)
    result = onward(queue, "failed", *args)
    assert result.exit_code == 2
    assert problem in result.stderr
    assert rows(queue) == before


def test_an_unknown_failure_group_is_told(queue: Path) -> None:
    result = onward(queue, "failed", "requeue", "--all", "--group", "nosuchgroup")
    assert result.exit_code == 2
    assert "there is no failure group 'nosuchgroup'" in result.stderr
