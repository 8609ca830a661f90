"""A failure group goes back as a whole, after its canary, and is given up as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from onward.backend_urls import open_store
from onward.model.ledger import Charge, DeadLettered, Delivery, Processed, RetryLater, SettlementPart
from onward.model.ledger_views import ScheduleResult
from onward.ops.actions.failure_groups import GroupRetryResult, discard_group, plan_group_retry, retry_group
from onward.ops.queries.failure_groups import affected
from onward.recovery.requeue_dead_letters import CanaryOutcome, DeadLetterFilter, Requeue, matching_dead_letters
from tests.support.store_pages import NOON, Clock, Stage, failure

GROUP = "f00d"


@pytest.fixture
def stage() -> Iterator[Stage]:
    clock = Clock()
    store = open_store("sqlite://:memory:", clock)
    yield Stage(store, clock)
    store.close()


@pytest.fixture
def troubled(stage: Stage) -> Stage:
    """Three pages with dead letters, two that wait for another try, and one of another group."""
    for id in "abc":
        stage.bring(id)
        stage.settle(stage.take(), DeadLettered([id], failure=failure(), charge=Charge.TRY))
    for id in "xy":
        stage.bring(id)
        stage.settle(stage.take(), RetryLater([id], after=7200.0, charge=Charge.TRY, failure=failure()))
    stage.bring("other")
    other = replace(failure(), fingerprint="beef")
    stage.settle(stage.take(), DeadLettered(["other"], failure=other, charge=Charge.TRY))
    return stage


def no_sleep(seconds: float) -> None:
    raise AssertionError(f"there was nothing to wait {seconds} s for")


def crew(stage: Stage, settle: Callable[[Delivery], SettlementPart]) -> Callable[[float], None]:
    """Workers that get something done whenever somebody sleeps."""

    def sleep(seconds: float) -> None:
        stage.clock.advance(seconds)
        for delivery in stage.claim():
            stage.settle(delivery, settle(delivery))

    return sleep


def done(delivery: Delivery) -> SettlementPart:
    return Processed([one.id for one in delivery.inputs])


def given_up(delivery: Delivery) -> SettlementPart:
    return DeadLettered([one.id for one in delivery.inputs], failure=failure("again"), charge=Charge.TRY)


def retried(
    stage: Stage, *, canary: int = 0, rate: float | None = None, sleep: Callable[[float], None] = no_sleep
) -> GroupRetryResult:
    _, documents = plan_group_retry(stage.store, GROUP)
    letters = matching_dead_letters(stage.store, DeadLetterFilter(fingerprint=GROUP))
    requeue = Requeue(stage.store, letters, sleep=sleep, canary=canary, rate=rate)
    result = GroupRetryResult(requeue.result)
    retry_group(stage.store, requeue, documents, result, canary, rate)
    return result


def test_a_plan_tells_letters_from_documents_without_one(troubled: Stage) -> None:
    letters, documents = plan_group_retry(troubled.store, GROUP)
    assert (letters.requeued, letters.refused) == (3, [])
    assert documents == [("pages", "x"), ("pages", "y")]
    assert [one.id for one in affected(troubled.store, GROUP)] == ["a", "b", "c", "x", "y"]


def test_letters_and_documents_go_back_together(troubled: Stage) -> None:
    result = retried(troubled)
    assert (result.dead_letters.requeued, result.documents, result.touched) == (
        3,
        {ScheduleResult.RESCHEDULED: 2},
        5,
    )
    assert not result.left
    assert sorted(one.inputs[0].id for one in troubled.claim()) == ["a", "b", "c", "x", "y"]


def test_what_has_recovered_is_not_planned(troubled: Stage) -> None:
    retried(troubled)
    for delivery in troubled.claim():
        troubled.settle(delivery, done(delivery))
    letters, documents = plan_group_retry(troubled.store, GROUP)
    assert (letters.requeued, documents) == (0, [])
    assert retried(troubled).touched == 0


def test_after_a_good_canary_the_rest_follows(troubled: Stage) -> None:
    result = retried(troubled, canary=1, sleep=crew(troubled, done))
    assert result.dead_letters.canary.outcome is CanaryOutcome.PASSED
    assert (result.dead_letters.requeued, result.documents[ScheduleResult.RESCHEDULED], result.held_back) == (
        3,
        2,
        0,
    )


def test_after_a_bad_canary_nothing_else_moves(troubled: Stage) -> None:
    result = retried(troubled, canary=1, sleep=crew(troubled, given_up))
    assert result.dead_letters.canary.outcome is CanaryOutcome.FAILED
    assert (result.dead_letters.requeued, result.dead_letters.left_untouched, result.held_back) == (1, 2, 2)
    assert result.documents == {}
    assert result.left == 4


def test_documents_without_letters_fall_due_at_the_rate(stage: Stage) -> None:
    for id in "uvwxyz":
        stage.bring(id)
        stage.settle(stage.take(), RetryLater([id], after=7200.0, charge=Charge.TRY, failure=failure()))
    assert retried(stage, rate=2.0).documents == {ScheduleResult.RESCHEDULED: 6}
    claimed = []
    for _ in range(3):
        claimed.append(len(stage.claim()))
        stage.clock.advance(1.0)
    assert claimed == [2, 2, 2]
    assert stage.store.now() == NOON + 3


def test_a_group_is_given_up_and_others_stay(troubled: Stage) -> None:
    assert discard_group(troubled.store, GROUP) == (5, 0)
    assert {troubled.state(id).status for id in "abcxy"} == {"discarded"}
    assert [one.id for one in affected(troubled.store, GROUP)] == []
    assert troubled.state("other").status == "pending"
    (letter,) = troubled.store.find_dead_letters()
    assert letter.fingerprint == "beef"
