"""A failure group is closed, stays closed while only old versions fail, and comes back as a regression."""

from __future__ import annotations

from dataclasses import replace

import pytest

from onward.model.failures import Failure
from onward.model.group_life import MAX_NOTES, GroupLife, GroupState
from onward.model.ledger import DeadLettered, RetryLater
from onward.model.ledger_views import FailureGroup
from onward.retry import Reason
from tests.support.store_pages import NOON, Clock, Stage

BROKEN = Failure(at=NOON, error_type="KeyError", message="'subject'", fingerprint="f00d", version="1.0")


def fail(stage: Stage, id: str, *, version: str = "1.0", began: float | None = None, group: str = "f00d") -> None:
    failure = replace(BROKEN, at=stage.clock.now(), version=version, fingerprint=group)
    stage.bring(id)
    dead = DeadLettered([id], reason=Reason.NON_RETRYABLE, failure=failure, final=True)
    stage.settle(stage.take(), dead, began=began)


def deploy(stage: Stage, version: str) -> None:
    """A worker of this version is seen."""
    stage.clock.advance(60)
    stage.store.register_worker(f"worker of {version}", {"version": version})


def only_group(stage: Stage) -> FailureGroup:
    (group,) = stage.store.failure_groups()
    return group


def state(stage: Stage) -> GroupState:
    return only_group(stage).life.state(stage.store.first_seen_versions())


def regressions(stage: Stage) -> dict[str, float]:
    return stage.store.totals().get("failure_group_regressions_total", {})


@pytest.fixture
def failed(stage: Stage) -> Stage:
    """One page has failed in version 1.0."""
    deploy(stage, "1.0")
    fail(stage, "a")
    stage.clock.advance(10)
    return stage


def test_a_new_group_is_open(failed: Stage) -> None:
    assert only_group(failed).life == GroupLife()
    assert state(failed) is GroupState.OPEN


def test_a_group_is_closed_with_who_when_and_the_version(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    closing = only_group(failed).life.closing
    assert closing is not None
    assert (closing.who, closing.at, closing.version) == ("ana", failed.clock.now(), "1.1")


def test_a_fix_is_expected_until_its_version_is_seen(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    assert state(failed) is GroupState.FIX_EXPECTED
    deploy(failed, "1.1")
    assert state(failed) is GroupState.CLOSED


def test_failures_of_older_versions_reopen_nothing(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    fail(failed, "b")
    assert state(failed) is GroupState.FIX_EXPECTED
    deploy(failed, "1.1")
    fail(failed, "c")
    assert state(failed) is GroupState.CLOSED
    assert only_group(failed).failures == 3, "they are counted"
    assert regressions(failed) == {"reading": 0}, "it is there from the closing on"


def test_a_failure_of_the_fixed_version_is_a_regression(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    deploy(failed, "1.1")
    fail(failed, "b", version="1.1")
    life = only_group(failed).life
    assert state(failed) is GroupState.REGRESSION
    assert (life.regressed_in, life.regressed_at, life.regressions) == ("1.1", failed.clock.now(), 1)
    assert life.closing is not None
    assert life.closing.who == "ana", "who closed it is still known"
    assert regressions(failed) == {"reading": 1}


def test_a_regression_is_counted_once(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    deploy(failed, "1.1")
    fail(failed, "b", version="1.1")
    fail(failed, "c", version="1.1")
    assert only_group(failed).life.regressions == 1
    assert regressions(failed) == {"reading": 1}


def test_a_later_version_is_one_that_was_seen_later_whatever_its_name(failed: Stage) -> None:
    deploy(failed, "rolling-b")
    failed.store.close_group("f00d", "ana", "rolling-b")
    deploy(failed, "rolling-a")
    fail(failed, "b", version="rolling-a")
    assert state(failed) is GroupState.REGRESSION


def test_a_rolled_back_version_is_an_older_one(failed: Stage) -> None:
    deploy(failed, "1.1")
    failed.store.close_group("f00d", "ana", "1.1")
    deploy(failed, "1.0")  # again
    fail(failed, "b", version="1.0")
    assert state(failed) is GroupState.CLOSED


def test_a_skipped_version_is_compared_by_its_numbers(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    deploy(failed, "1.0.9")
    fail(failed, "b", version="1.0.9")
    assert state(failed) is GroupState.FIX_EXPECTED
    deploy(failed, "1.10")
    assert state(failed) is GroupState.CLOSED, "1.10 has the fix, too"
    fail(failed, "c", version="1.10")
    assert state(failed) is GroupState.REGRESSION


def test_a_failure_of_an_unknown_version_is_counted_for_a_person_to_decide(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    fail(failed, "b", version="")
    deploy(failed, "nightly")
    fail(failed, "c", version="nightly")
    closing = only_group(failed).life.closing
    assert state(failed) is GroupState.FIX_EXPECTED
    assert closing is not None
    assert closing.uncertain == 2


def test_a_group_closed_without_a_version_comes_back_with_the_next_try(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana")
    closed_at = failed.clock.now()
    assert state(failed) is GroupState.CLOSED
    failed.clock.advance(5)
    fail(failed, "b", began=closed_at - 1)
    assert state(failed) is GroupState.CLOSED, "that try was running when the group was closed"
    fail(failed, "c", began=closed_at + 1)
    assert state(failed) is GroupState.REGRESSION


def test_a_reported_failure_reopens_a_group_too(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana")
    failed.clock.advance(5)
    failed.store.report_failure("reading", replace(BROKEN, at=failed.clock.now()))
    assert state(failed) is GroupState.REGRESSION


def test_a_regression_is_closed_again(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    deploy(failed, "1.1")
    fail(failed, "b", version="1.1")
    failed.store.close_group("f00d", "ben", "1.2")
    assert state(failed) is GroupState.FIX_EXPECTED
    deploy(failed, "1.2")
    fail(failed, "c", version="1.2")
    assert only_group(failed).life.regressions == 2


def test_a_group_is_reopened_by_hand(failed: Stage) -> None:
    failed.store.close_group("f00d", "ana", "1.1")
    failed.store.reopen_group("f00d")
    assert state(failed) is GroupState.OPEN
    deploy(failed, "1.1")
    fail(failed, "b", version="1.1")
    assert regressions(failed) == {"reading": 0}, "it was open"


def test_only_the_group_that_comes_back_is_reopened(failed: Stage) -> None:
    fail(failed, "other", group="beef")
    for group in ("f00d", "beef"):
        failed.store.close_group(group, "ana", "1.1")
    deploy(failed, "1.1")
    fail(failed, "b", version="1.1", group="beef")
    closed = {group.fingerprint: group.life.closed for group in failed.store.failure_groups()}
    assert closed == {"f00d": True, "beef": False}


def test_a_commit_that_fails_reopens_nothing(failed: Stage, clock: Clock) -> None:
    failed.store.close_group("f00d", "ana")
    clock.advance(5)
    failed.bring("b")
    delivery = failed.take()
    with pytest.raises(UnicodeEncodeError):
        failed.settle(delivery, RetryLater(["b"], failure=replace(BROKEN, message="\ud800"), given_back=True))
    assert state(failed) is GroupState.CLOSED


def test_notes_have_a_writer_and_a_time_and_the_oldest_go_first(failed: Stage) -> None:
    for number in range(MAX_NOTES + 1):
        failed.clock.advance(1)
        failed.store.note_group("f00d", "ana", f"note {number}")
    notes = only_group(failed).life.notes
    assert len(notes) == MAX_NOTES
    assert (notes[0].text, notes[-1].text, notes[-1].who) == ("note 1", f"note {MAX_NOTES}", "ana")
    assert notes[-1].at == failed.clock.now()


def test_a_group_has_an_owner(failed: Stage) -> None:
    failed.store.assign_group("f00d", "ana")
    assert only_group(failed).life.owner == "ana"
    failed.store.assign_group("f00d", "")
    assert only_group(failed).life.owner == ""


def test_an_unknown_group_cannot_be_changed(failed: Stage) -> None:
    assert failed.store.close_group("beef", "ana") is None
    assert failed.store.note_group("beef", "ana", "hello") is None
    assert [group.fingerprint for group in failed.store.failure_groups()] == ["f00d"]
