"""`onward failures`: what fails for the same reason is shown, put back and given up together."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.failures import Failure
from onward.model.ledger import Charge, DeadLettered, DependencyReport, Processed, RetryLater
from onward.retry import Reason
from tests.support.command_runs import ESCAPE, onward
from tests.support.store_pages import READING, Clock, Stage

BROKEN = Failure(
    at=0.0,
    error_type="KeyError",
    message="'subject'",
    fingerprint="beef" * 4,
    version="1.0",
    traceback="Traceback …\nKeyError: 'subject'\n",
    kind="permanent",
    place="pages:read",
)
SLOW = replace(BROKEN, error_type="ValueError", message="too slow", fingerprint="cafe" * 4, kind="transient")


@contextmanager
def stage_in(home: Path) -> Iterator[Stage]:
    """The store of a data folder, an hour ago."""
    clock = Clock(datetime.now(UTC).timestamp() - 3600)
    store = open_store(f"sqlite:///{home / 'onward.db'}", clock)
    try:
        yield Stage(store, clock)
    finally:
        store.close()


@contextmanager
def store_of(home: Path) -> Iterator[Store]:
    with stage_in(home) as stage:
        yield stage.store


def fail(stage: Stage, id: str, failure: Failure = BROKEN) -> None:
    """A page is given up for good."""
    stage.bring(id)
    failure = replace(failure, at=stage.store.now())
    stage.settle(stage.take(), DeadLettered([id], reason=Reason.NON_RETRYABLE, failure=failure, final=True))


def wait(stage: Stage, id: str, failure: Failure = SLOW) -> None:
    """A page failed, and waits for its next try in two hours."""
    stage.bring(id)
    failure = replace(failure, at=stage.store.now())
    stage.settle(stage.take(), RetryLater([id], after=7200.0, charge=Charge.TRY, failure=failure))


def finish(stage: Stage, id: str) -> None:
    stage.bring(id)
    stage.settle(stage.take(), Processed([id]))


@pytest.fixture
def troubled(home: Path) -> Path:
    """Six pages that fail for one reason, one that waits for another, and one that went well."""
    with stage_in(home) as stage:
        wait(stage, "slow")
        for id in "abcdef":
            fail(stage, f"page-{id}")
        finish(stage, "good")
    return home


def facts(result: Result) -> Any:
    assert result.exit_code in (0, 3), result.output
    return json.loads(result.stdout)


def statuses(home: Path) -> dict[str, int]:
    with store_of(home) as store:
        return store.document_counts()["pages"]


def rows(home: Path) -> dict[str, int]:
    with store_of(home) as store:
        return store.counts()["reading"]


# -- list


def test_the_largest_group_comes_first_with_its_verdict(troubled: Path) -> None:
    lines = onward(troubled, "failures", "list").output.splitlines()
    assert lines[0].startswith("beefbeef  bug or bad deploy  reading: 6 of 6 documents now, since ")
    assert lines[1].strip() == "KeyError: 'subject'"
    assert lines[2].startswith("cafecafe  poison document    reading: 1 of 1 document now")
    assert lines[-1] == "To look at one: onward failures show beefbeef"


def test_groups_are_exported_as_json(troubled: Path) -> None:
    first, second = facts(onward(troubled, "failures", "list", "--json"))
    assert (first["fingerprint"], first["verdict"]["kind"]) == ("beef" * 4, "bug or bad deploy")
    assert (first["affected"], first["dead_letters"], second["affected"]) == (6, 6, 1)
    assert "6 documents failed this way, 6 times in all." in first["verdict"]["sentences"]
    assert first["first_seen"].endswith("+00:00")


def test_what_affects_nothing_any_more_is_only_counted(troubled: Path) -> None:
    onward(troubled, "failures", "discard", "beef", "--confirm")
    shown = onward(troubled, "failures", "list").output
    assert "beefbeef" not in shown
    assert "1 group affects nothing any more; --all shows them." in shown
    assert "beefbeef" in onward(troubled, "failures", "list", "--all").output


def test_groups_are_chosen_by_service_and_time(troubled: Path) -> None:
    assert len(facts(onward(troubled, "failures", "list", "--json", "--service", "reading"))) == 2
    assert facts(onward(troubled, "failures", "list", "--json", "--service", "listening")) == []
    assert facts(onward(troubled, "failures", "list", "--json", "--since", "tomorrow")) == []
    assert onward(troubled, "failures", "list", "--since", "tomorrow").output == "No such failures.\n"
    assert "… and 1 more; --limit 2 shows them." in onward(troubled, "failures", "list", "--limit", "1").output


def test_an_unknown_service_is_refused_with_the_known_ones(troubled: Path) -> None:
    result = onward(troubled, "failures", "list", "--service", "raeding")
    assert result.exit_code == 2
    assert "there is no service 'raeding'; there are: listening, reading" in result.output


def test_where_nothing_failed_it_says_so(home: Path) -> None:
    with stage_in(home) as stage:
        finish(stage, "good")
    assert onward(home, "failures", "list").output == "Nothing has failed.\n"


def test_what_an_error_says_is_no_markup_and_drives_no_terminal(home: Path) -> None:
    with stage_in(home) as stage:
        fail(stage, "page-a", replace(BROKEN, message=f"[bold]loud[/bold] {ESCAPE}[31m password=hunter2"))
    for args in (("list",), ("show", "beef"), ("list", "--json")):
        shown = onward(home, "failures", *args).output
        assert "[bold]loud[/bold]" in shown
        assert ESCAPE not in shown
        assert "hunter2" not in shown


# -- show


def test_a_group_is_shown_with_its_evidence_and_what_to_do(troubled: Path) -> None:
    shown = onward(troubled, "failures", "show", "beef").output
    for part in (
        "Probably: bug or bad deploy",
        "KeyError is an error of the program, and all of them come from pages:read.",
        "affects     6 of 6 documents now, 6 dead letters",
        "versions    1.0 (6)",
        "Traceback …",
        "page-a",
        "when it is fixed and deployed: onward failures retry beefbeef --canary 3",
    ):
        assert part in shown


def test_of_many_documents_the_first_ten_are_shown(troubled: Path) -> None:
    with stage_in(troubled) as stage:
        for number in range(8):
            fail(stage, f"more-{number}")
    assert (
        "… and 4 more: onward failures show beefbeef --json" in onward(troubled, "failures", "show", "beef").output
    )
    found = facts(onward(troubled, "failures", "show", "beef", "--json"))
    assert len(found["documents_now"]) == 14


def test_the_breakers_of_that_time_are_shown(troubled: Path) -> None:
    with stage_in(troubled) as stage:
        stage.store.open_breaker("model", "refused")
        wait(stage, "page-g", replace(SLOW, fingerprint="d00d", kind="unavailable", dependency="model"))
    shown = onward(troubled, "failures", "show", "d00d").output
    assert "Probably: dependency" in shown
    assert "and is still open: refused" in shown
    assert "onward breakers" in shown


# -- an outage that was noticed at once, so that no document was charged


@contextmanager
def needing_a_model(home: Path) -> Iterator[Stage]:
    with stage_in(home) as stage:
        stage.store.subscribe([replace(READING, needs=("model",))])
        yield stage


@pytest.fixture
def outage(home: Path) -> Path:
    """The model is down, and three pages wait for it."""
    with needing_a_model(home) as stage:
        for id in ("page-a", "page-b", "page-c"):
            stage.bring(id)
        (delivery,) = stage.claim(limit=1)
        failure = replace(SLOW, at=stage.store.now(), kind="unavailable", dependency="model")
        down = DependencyReport(opens="model", ids=["page-a"], reason="refused")
        stage.settle(delivery, RetryLater(["page-a"], failure=failure), dependencies=down)
    return home


def test_an_outage_is_listed_with_what_waits_although_it_has_charged_nobody(outage: Path) -> None:
    assert onward(outage, "failures", "list").output.startswith(
        "cafecafe  dependency         reading: 3 events wait,"
    )
    (found,) = facts(onward(outage, "failures", "list", "--json"))
    assert (found["waiting"], found["affected"], found["verdict"]["kind"]) == (3, 0, "dependency")
    (shown,) = facts(onward(outage, "status", "--json"))["failures"]
    assert (shown["waiting"], shown["verdict"]) == (3, "dependency")
    assert "  3 events wait · reading · dependency\n" in onward(outage, "status").output


def test_what_waits_for_a_dependency_needs_nobody(outage: Path) -> None:
    shown = onward(outage, "failures", "show", "cafe").output
    for part in (
        "The only failure points at model.",
        "The breaker of model opened in that time, and is still open.",
        "3 events wait, and lose no tries.",
        "waiting     3 events",
        "Nothing: waiting events go on by themselves when model is back.",
    ):
        assert part in shown
    assert "onward failures retry" not in shown
    assert "0 documents" not in shown
    discarded = onward(outage, "failures", "discard", "cafe", "--confirm").output
    assert discarded == "Nothing of this group is left to give up.\n"


def test_an_outage_that_is_over_affects_nothing(outage: Path) -> None:
    with needing_a_model(outage) as stage:
        stage.store.close_breaker("model")
    assert "1 group affects nothing any more" in onward(outage, "failures", "list").output
    shown = onward(outage, "failures", "show", "cafe").output
    assert "Probably: dependency" in shown
    assert "Nothing: it affects nothing any more." in shown


def test_other_failures_of_a_service_that_waits_are_not_blamed_for_it(outage: Path) -> None:
    with needing_a_model(outage) as stage:
        stage.store.close_breaker("model")
        (delivery,) = stage.claim(limit=1)
        failure = replace(BROKEN, at=stage.store.now())
        dead = DeadLettered([delivery.inputs[0].id], reason=Reason.NON_RETRYABLE, failure=failure, final=True)
        stage.settle(delivery, dead)
        stage.store.open_breaker("model", "refused again")
    found = {one["error_type"]: one["waiting"] for one in facts(onward(outage, "failures", "list", "--json"))}
    assert found == {"KeyError": 0, "ValueError": 2}


@pytest.mark.parametrize("command", ("show", "retry", "discard"))
@pytest.mark.parametrize("given", ("zzz", "", "[bold]"))
def test_an_unknown_group_is_refused_with_the_known_ones(troubled: Path, command: str, given: str) -> None:
    result = onward(troubled, "failures", command, given)
    assert result.exit_code == 2
    assert (
        f"there is no failure group '{given}'. The known ones are:\n  beefbeef  reading: KeyError" in result.output
    )


def test_a_beginning_that_fits_two_groups_is_not_enough(troubled: Path) -> None:
    with stage_in(troubled) as stage:
        fail(stage, "page-g", replace(BROKEN, fingerprint="beef" * 3 + "0000"))
    result = onward(troubled, "failures", "show", "beef")
    assert result.exit_code == 2
    assert "'beef' begins 2 failure groups; give more of one:\n  beefbeefbeefbeef" in result.output


# -- retry


def test_a_group_is_put_back_whole(troubled: Path) -> None:
    result = onward(troubled, "failures", "retry", "beef")
    assert result.exit_code == 0, result.output
    assert result.output.startswith("6 dead letters put back.\n")
    assert statuses(troubled) == {"pending": 7, "processed": 1}
    assert rows(troubled).get("dead", 0) == 0
    assert onward(troubled, "failures", "retry", "beef").output.startswith(("6 documents waited", "Nothing"))


def test_documents_without_a_dead_letter_are_tried_now(troubled: Path) -> None:
    assert "1 document waited already, and falls due now." in onward(troubled, "failures", "retry", "cafe").output
    with store_of(troubled) as store:
        due = store.next_due(["reading"])
        assert due is not None
        assert due < store.now() + 3700, "not in the two hours that it would have waited"


def test_a_dry_run_puts_nothing_back(troubled: Path) -> None:
    result = onward(troubled, "failures", "retry", "beef", "--dry-run", "--canary", "2")
    assert result.exit_code == 0
    assert result.output.endswith("6 dead letters would be put back, 2 of them first.\n")
    found = facts(onward(troubled, "failures", "retry", "cafe", "--dry-run", "--json"))
    assert (found["dry_run"], found["documents_without_letter"], found["requeued"]) == (True, 1, 0)
    assert statuses(troubled) == {"failed": 6, "pending": 1, "processed": 1}
    with store_of(troubled) as store:
        assert store.actions() == []


def test_what_is_put_back_is_told_as_json_and_logged(troubled: Path) -> None:
    found = facts(onward(troubled, "failures", "retry", "beef", "--json", "--rate", "500"))
    assert (found["requeued"], found["refused"], found["left_untouched"]) == (6, [], 0)
    with store_of(troubled) as store:
        (action,) = store.actions()
    assert (action.action, action.via, action.touched) == ("failures retry", "cli", 6)
    assert action.about == {"group": "beef" * 4, "service": "reading", "error_type": "KeyError", "rate": 500.0}


def test_a_canary_among_documents_without_letters_leaves_the_rest(troubled: Path) -> None:
    with stage_in(troubled) as stage:
        wait(stage, "slower")
        wait(stage, "slowest")
    result = onward(troubled, "failures", "retry", "cafe", "--canary", "1")
    assert result.exit_code == 3
    assert "1 document waited already" in result.output
    assert "2 left where they are." in result.output


@pytest.mark.parametrize("args", (("--rate", "0"), ("--rate", "-1"), ("--rate", "nan"), ("--canary", "0")))
def test_a_rate_or_canary_that_makes_no_sense_is_refused(troubled: Path, args: tuple[str, str]) -> None:
    assert onward(troubled, "failures", "retry", "beef", *args).exit_code == 2
    assert statuses(troubled)["failed"] == 6


# -- discard


def test_giving_up_needs_a_confirmation(troubled: Path) -> None:
    result = onward(troubled, "failures", "discard", "beef")
    assert result.exit_code == 2
    assert "this gives up 6 documents and 6 dead letters for good; add --confirm" in result.output
    assert "would be given up" in onward(troubled, "failures", "discard", "beef", "--dry-run").output
    assert statuses(troubled)["failed"] == 6


def test_a_group_is_given_up_whole(troubled: Path) -> None:
    found = facts(onward(troubled, "failures", "discard", "beef", "--confirm", "--json"))
    assert found == {"dry_run": False, "fingerprint": "beef" * 4, "documents": 6, "dead_letters": 0}
    assert statuses(troubled) == {"discarded": 6, "pending": 1, "processed": 1}
    assert rows(troubled).get("dead", 0) == 0
    with store_of(troubled) as store:
        (action,) = store.actions()
    assert (action.action, action.touched, action.about["group"]) == ("failures discard", 6, "beef" * 4)


def test_letters_about_no_document_are_archived(home: Path) -> None:
    with stage_in(home) as stage:
        stage.store.publish([stage.noticed("smoke")])
        delivery = stage.take(service="listening")
        failure = replace(BROKEN, at=stage.store.now())
        stage.settle(delivery, DeadLettered([], reason=Reason.NON_RETRYABLE, failure=failure))
    assert onward(home, "failures", "discard", "beef", "--confirm").output == "1 dead letter given up for good.\n"
    with store_of(home) as store:
        assert store.counts()["listening"] == {"archived": 1}


def test_a_dry_run_counts_as_putting_dead_letters_back_does(troubled: Path) -> None:
    def counts(*args: str) -> dict[str, Any]:
        facts = json.loads(onward(troubled, *args, "--dry-run", "--json").stdout)
        return {
            name: facts[name] for name in ("dry_run", "requeued", "skipped_recovered", "refused", "left_untouched")
        }

    group = counts("failures", "retry", BROKEN.fingerprint)
    assert group == counts("failed", "requeue", "--all", "--group", BROKEN.fingerprint)
    assert group["requeued"] == 6


def test_without_a_worker_it_says_how_one_is_started_for_this_app(troubled: Path) -> None:
    shown = onward(troubled, "failures", "retry", BROKEN.fingerprint).stdout
    assert "No worker is alive to do it; start one: onward worker --app MODULE:APP\n" in shown


def test_an_unclear_cause_is_called_so(home: Path) -> None:
    with stage_in(home) as stage:
        fail(stage, "page-1")
        fail(stage, "page-2")
        fail(stage, "page-3")
        fail(stage, "page-4")
    shown = onward(home, "failures", "show", BROKEN.fingerprint).stdout
    assert "\nThe cause is unclear:\n" in shown
    assert "Probably" not in shown
    assert "look at one: onward show pages/page-1\n" in shown
