"""`onward failures`: what fails for the same reason is shown, put back and given up together."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from onward.model.ledger import DeadLettered
from onward.retry import Reason
from tests.cli import scenes
from tests.cli.scenes import BROKEN, SLOW, fail_for_good, fail_once, finish, stage_an_hour_ago
from tests.support.command_runs import ESCAPE, onward


@pytest.fixture
def troubled(home: Path) -> Path:
    scenes.two_groups(home)
    return home


def facts(result: Result) -> Any:
    assert result.exit_code in (0, 3), result.output
    return json.loads(result.stdout)


def listed(home: Path, *args: str) -> Any:
    return facts(onward(home, "failures", "list", "--json", *args))


def shown(home: Path, group: str) -> Any:
    return facts(onward(home, "failures", "show", group, "--json"))


def statuses(home: Path) -> dict[str, int]:
    with stage_an_hour_ago(home) as stage:
        return stage.store.document_counts()["pages"]


def rows(home: Path) -> dict[str, int]:
    with stage_an_hour_ago(home) as stage:
        return stage.store.counts()["reading"]


# -- list


def test_the_largest_group_comes_first_with_its_verdict(troubled: Path) -> None:
    first, second = listed(troubled)
    assert (first["fingerprint"], second["fingerprint"]) == ("beef" * 4, "cafe" * 4)
    assert (first["verdict"]["kind"], second["verdict"]["kind"]) == ("bug or bad deploy", "unclear")
    assert (first["service"], first["error_type"], first["message"]) == ("reading", "KeyError", "'subject'")
    assert (first["affected"], first["documents"], first["dead_letters"]) == (6, 6, 6)
    assert (second["affected"], second["documents"], second["dead_letters"]) == (1, 1, 0)
    assert first["first_seen"].endswith("Z")


def test_what_affects_nothing_any_more_is_listed_only_with_all(troubled: Path) -> None:
    onward(troubled, "failures", "discard", "beef", "--confirm")
    assert [one["fingerprint"] for one in listed(troubled)] == ["cafe" * 4]
    assert [one["fingerprint"] for one in listed(troubled, "--all")] == ["cafe" * 4, "beef" * 4]


def test_groups_are_chosen_by_service_and_time(troubled: Path) -> None:
    assert len(listed(troubled, "--service", "reading")) == 2
    assert listed(troubled, "--service", "listening") == []
    assert listed(troubled, "--since", "tomorrow") == []
    assert len(listed(troubled, "--limit", "1")) == 1


def test_an_unknown_service_is_refused_with_the_known_ones(troubled: Path) -> None:
    result = onward(troubled, "failures", "list", "--service", "raeding")
    assert result.exit_code == 2
    assert "'raeding'" in result.stderr
    assert "listening, reading" in result.stderr


def test_without_failures_the_list_is_empty(home: Path) -> None:
    with stage_an_hour_ago(home) as stage:
        finish(stage, "good")
    assert listed(home) == []


def test_the_text_of_an_error_is_no_markup_and_drives_no_terminal(home: Path) -> None:
    with stage_an_hour_ago(home) as stage:
        message = f"[bold]loud[/bold] {ESCAPE}[31m password=hunter2"
        fail_for_good(stage, "page-a", replace(BROKEN, message=message))
    for args in (("list",), ("show", "beef"), ("list", "--json")):
        output = onward(home, "failures", *args).output
        assert "[bold]loud[/bold]" in output
        assert ESCAPE not in output
        assert "hunter2" not in output


# -- show


def test_a_group_is_shown_with_its_evidence(troubled: Path) -> None:
    found = shown(troubled, "beef")
    assert (found["verdict"]["kind"], found["place"]) == ("bug or bad deploy", "pages:read")
    assert (found["affected"], found["documents"], found["dead_letters"]) == (6, 6, 6)
    assert (found["versions"], found["kinds"]) == ({"1.0": 6}, {"permanent": 6})
    assert found["traceback"] == BROKEN.traceback
    assert [one["id"] for one in found["documents_now"]] == [f"page-{id}" for id in "abcdef"]
    assert {(one["status"], one["error"]) for one in found["documents_now"]} == {("failed", "KeyError: 'subject'")}


def test_programs_get_all_documents_and_people_the_first_ten(troubled: Path) -> None:
    with stage_an_hour_ago(troubled) as stage:
        for number in range(8):
            fail_for_good(stage, f"more-{number}")
    found = [one["id"] for one in shown(troubled, "beef")["documents_now"]]
    assert len(found) == 14
    output = onward(troubled, "failures", "show", "beef").output
    assert [id in output for id in found] == [True] * 10 + [False] * 4


def test_the_breakers_of_that_time_are_shown(troubled: Path) -> None:
    with stage_an_hour_ago(troubled) as stage:
        stage.store.open_breaker("model", "refused")
        fail_once(stage, "page-g", replace(SLOW, fingerprint="d00d", kind="unavailable", dependency="model"))
    found = shown(troubled, "d00d")
    assert found["verdict"]["kind"] == "dependency"
    (opening,) = found["openings"]
    assert (opening["dependency"], opening["closed_at"], opening["reason"]) == ("model", None, "refused")
    assert "onward breakers" in onward(troubled, "failures", "show", "d00d").output


@pytest.mark.parametrize("command", ("show", "retry", "discard"))
@pytest.mark.parametrize("given", ("zzz", "", "[bold]"))
def test_an_unknown_group_is_refused_with_the_known_ones(troubled: Path, command: str, given: str) -> None:
    result = onward(troubled, "failures", command, given)
    assert result.exit_code == 2
    assert f"'{given}'" in result.stderr
    assert "\n  beefbeef  reading: KeyError" in result.stderr


def test_a_prefix_of_two_groups_is_refused_with_both(troubled: Path) -> None:
    others = ("beef" * 4, "beef" * 3 + "0000")
    with stage_an_hour_ago(troubled) as stage:
        fail_for_good(stage, "page-g", replace(BROKEN, fingerprint=others[1]))
    result = onward(troubled, "failures", "show", "beef")
    assert result.exit_code == 2
    assert all(f"\n  {other}" in result.stderr for other in others)


def test_a_cause_that_the_evidence_does_not_show_is_unclear(home: Path) -> None:
    scenes.unclear_group(home)
    assert shown(home, "beef")["verdict"]["kind"] == "unclear"
    output = onward(home, "failures", "show", "beef").stdout
    assert "Probably" not in output
    assert "onward show pages/page-1\n" in output


# -- an outage that was noticed at once, so that no document was charged


@pytest.fixture
def outage(home: Path) -> Path:
    scenes.model_outage(home)
    return home


def test_an_outage_is_listed_with_what_waits_although_it_has_charged_nobody(outage: Path) -> None:
    (found,) = listed(outage)
    assert (found["waiting"], found["affected"], found["verdict"]["kind"]) == (3, 0, "dependency")
    (group,) = facts(onward(outage, "status", "--json"))["failures"]
    assert (group["waiting"], group["verdict"]) == (3, "dependency")


def test_what_waits_for_a_dependency_needs_nobody(outage: Path) -> None:
    found = shown(outage, "cafe")
    assert (found["waiting"], found["documents"], found["dead_letters"]) == (3, 1, 0)
    assert (found["needs"], found["documents_now"]) == (["model"], [])
    assert [(one["dependency"], one["closed_at"]) for one in found["openings"]] == [("model", None)]
    assert "onward failures retry" not in onward(outage, "failures", "show", "cafe").output
    discarded = facts(onward(outage, "failures", "discard", "cafe", "--confirm", "--json"))
    assert (discarded["documents"], discarded["dead_letters"]) == (0, 0)


def test_an_outage_that_is_over_affects_nothing(outage: Path) -> None:
    with stage_an_hour_ago(outage, "model") as stage:
        stage.store.close_breaker("model")
    assert listed(outage) == []
    found = shown(outage, "cafe")
    assert (found["verdict"]["kind"], found["waiting"]) == ("dependency", 0)


def test_other_failures_of_a_service_that_waits_are_not_blamed_for_it(outage: Path) -> None:
    with stage_an_hour_ago(outage, "model") as stage:
        stage.store.close_breaker("model")
        (delivery,) = stage.claim(limit=1)
        failure = replace(BROKEN, at=stage.store.now())
        dead = DeadLettered([delivery.inputs[0].id], reason=Reason.NON_RETRYABLE, failure=failure, final=True)
        stage.settle(delivery, dead)
        stage.store.open_breaker("model", "refused again")
    found = {one["error_type"]: one["waiting"] for one in listed(outage)}
    assert found == {"KeyError": 0, "ValueError": 2}


# -- retry


def test_a_group_is_put_back_whole(troubled: Path) -> None:
    found = facts(onward(troubled, "failures", "retry", "beef", "--json", "--rate", "500"))
    assert (found["requeued"], found["refused"], found["left_untouched"]) == (6, [], 0)
    assert statuses(troubled) == {"pending": 7, "processed": 1}
    assert rows(troubled).get("dead", 0) == 0
    with stage_an_hour_ago(troubled) as stage:
        (action,) = stage.store.actions()
    assert (action.action, action.via, action.touched) == ("failures retry", "cli", 6)
    assert action.about == {"group": "beef" * 4, "service": "reading", "error_type": "KeyError", "rate": 500.0}
    again = facts(onward(troubled, "failures", "retry", "beef", "--json"))
    assert (again["requeued"], again["left_untouched"]) == (0, 0)


def test_documents_without_a_dead_letter_are_tried_now(troubled: Path) -> None:
    found = facts(onward(troubled, "failures", "retry", "cafe", "--json"))
    assert (found["requeued"], found["documents_without_letter"]) == (0, 1)
    assert found["documents"] == {"rescheduled": 1}
    with stage_an_hour_ago(troubled) as stage:
        due = stage.store.next_due(["reading"])
        assert due is not None
        assert due < stage.store.now() + 3700, "not in the two hours that it would have waited"


def test_a_dry_run_puts_nothing_back(troubled: Path) -> None:
    found = facts(onward(troubled, "failures", "retry", "beef", "--dry-run", "--canary", "2", "--json"))
    assert (found["dry_run"], found["dead_letters"], found["requeued"]) == (True, 6, 6)
    found = facts(onward(troubled, "failures", "retry", "cafe", "--dry-run", "--json"))
    assert (found["dry_run"], found["documents_without_letter"], found["requeued"]) == (True, 1, 0)
    assert statuses(troubled) == {"failed": 6, "pending": 1, "processed": 1}
    with stage_an_hour_ago(troubled) as stage:
        assert stage.store.actions() == []


def test_a_dry_run_counts_as_putting_dead_letters_back_does(troubled: Path) -> None:
    def counts(*args: str) -> dict[str, Any]:
        found = facts(onward(troubled, *args, "--dry-run", "--json"))
        return {
            name: found[name] for name in ("dry_run", "requeued", "skipped_recovered", "refused", "left_untouched")
        }

    group = counts("failures", "retry", BROKEN.fingerprint)
    assert group == counts("failed", "requeue", "--all", "--group", BROKEN.fingerprint)
    assert group["requeued"] == 6


def test_a_canary_among_documents_without_dead_letters_leaves_the_rest(troubled: Path) -> None:
    with stage_an_hour_ago(troubled) as stage:
        fail_once(stage, "slower")
        fail_once(stage, "slowest")
    result = onward(troubled, "failures", "retry", "cafe", "--canary", "1", "--json")
    assert result.exit_code == 3
    found = json.loads(result.stdout)
    assert (found["documents"], found["left_untouched"]) == ({"rescheduled": 1}, 2)


@pytest.mark.parametrize("args", (("--rate", "0"), ("--rate", "-1"), ("--rate", "nan"), ("--canary", "0")))
def test_a_rate_or_canary_that_makes_no_sense_is_refused(troubled: Path, args: tuple[str, str]) -> None:
    assert onward(troubled, "failures", "retry", "beef", *args).exit_code == 2
    assert statuses(troubled)["failed"] == 6


# -- discard


def test_giving_up_needs_a_confirmation(troubled: Path) -> None:
    result = onward(troubled, "failures", "discard", "beef")
    assert result.exit_code == 2
    assert "6 documents and 6 dead letters" in result.stderr
    assert "--confirm" in result.stderr
    found = facts(onward(troubled, "failures", "discard", "beef", "--dry-run", "--json"))
    assert (found["dry_run"], found["documents"], found["dead_letters"]) == (True, 6, 6)
    assert statuses(troubled)["failed"] == 6


def test_a_group_is_given_up_whole(troubled: Path) -> None:
    found = facts(onward(troubled, "failures", "discard", "beef", "--confirm", "--json"))
    assert found == {"dry_run": False, "fingerprint": "beef" * 4, "documents": 6, "dead_letters": 0}
    assert statuses(troubled) == {"discarded": 6, "pending": 1, "processed": 1}
    assert rows(troubled).get("dead", 0) == 0
    with stage_an_hour_ago(troubled) as stage:
        (action,) = stage.store.actions()
    assert (action.action, action.touched, action.about["group"]) == ("failures discard", 6, "beef" * 4)


def test_dead_letters_about_no_document_are_archived(home: Path) -> None:
    scenes.event_without_documents(home)
    found = facts(onward(home, "failures", "discard", "beef", "--confirm", "--json"))
    assert (found["documents"], found["dead_letters"]) == (0, 1)
    with stage_an_hour_ago(home) as stage:
        assert stage.store.counts()["listening"] == {"archived": 1}
