"""A failure group goes back as a whole, after its canary, and is given up as a whole."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest

from onward.backends import open_store
from onward.model.ledger import Charge, Dead, Delivery, Done, Part, Wait
from onward.model.recovery import Scheduled
from onward.recovery.groups import GroupRetry, affected, discard_group, plan, put_back
from onward.recovery.requeueing import CanaryOutcome
from tests.store.stage import NOON, Clock, Stage, failure

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
        stage.settle(stage.take(), Dead([id], failure=failure(), charge=Charge.TRY))
    for id in "xy":
        stage.bring(id)
        stage.settle(stage.take(), Wait([id], after=7200.0, charge=Charge.TRY, failure=failure()))
    stage.bring("other")
    other = replace(failure(), fingerprint="beef")
    stage.settle(stage.take(), Dead(["other"], failure=other, charge=Charge.TRY))
    return stage


def no_sleep(seconds: float) -> None:
    raise AssertionError(f"there was nothing to wait {seconds} s for")


def crew(stage: Stage, settle: Callable[[Delivery], Part]) -> Callable[[float], None]:
    """Workers that get something done whenever somebody sleeps."""

    def sleep(seconds: float) -> None:
        stage.clock.advance(seconds)
        for delivery in stage.claim():
            stage.settle(delivery, settle(delivery))

    return sleep


def done(delivery: Delivery) -> Part:
    return Done([one.id for one in delivery.inputs])


def given_up(delivery: Delivery) -> Part:
    return Dead([one.id for one in delivery.inputs], failure=failure("again"), charge=Charge.TRY)


def retried(stage: Stage, **how: object) -> GroupRetry:
    result = GroupRetry()
    put_back(stage.store, GROUP, result, **{"sleep": no_sleep} | how)  # type: ignore[arg-type]
    return result


def test_a_plan_tells_letters_from_documents_without_one(troubled: Stage) -> None:
    planned = plan(troubled.store, GROUP)
    assert (len(planned.letters), planned.refused) == (3, [])
    assert planned.documents == [("pages", "x"), ("pages", "y")]
    assert [one.id for one in affected(troubled.store, GROUP)] == ["a", "b", "c", "x", "y"]


def test_letters_and_documents_go_back_together(troubled: Stage) -> None:
    result = retried(troubled)
    assert (result.letters.requeued, result.documents, result.touched) == (3, {Scheduled.HURRIED: 2}, 5)
    assert result.complete
    assert sorted(one.inputs[0].id for one in troubled.claim()) == ["a", "b", "c", "x", "y"]


def test_what_has_recovered_is_not_planned(troubled: Stage) -> None:
    retried(troubled)
    for delivery in troubled.claim():
        troubled.settle(delivery, done(delivery))
    planned = plan(troubled.store, GROUP)
    assert (planned.letters, planned.documents) == ([], [])
    assert retried(troubled).touched == 0


def test_after_a_good_canary_the_rest_follows(troubled: Stage) -> None:
    result = retried(troubled, canary=1, sleep=crew(troubled, done))
    assert result.letters.canary.outcome is CanaryOutcome.PASSED
    assert (result.letters.requeued, result.documents[Scheduled.HURRIED], result.held_back) == (3, 2, 0)


def test_after_a_bad_canary_nothing_else_moves(troubled: Stage) -> None:
    result = retried(troubled, canary=1, sleep=crew(troubled, given_up))
    assert result.letters.canary.outcome is CanaryOutcome.FAILED
    assert (result.letters.requeued, result.letters.left_untouched, result.held_back) == (1, 2, 2)
    assert result.documents == {}
    assert not result.complete


def test_documents_without_letters_fall_due_at_the_rate(stage: Stage) -> None:
    for id in "uvwxyz":
        stage.bring(id)
        stage.settle(stage.take(), Wait([id], after=7200.0, charge=Charge.TRY, failure=failure()))
    assert retried(stage, rate=2.0).documents == {Scheduled.HURRIED: 6}
    claimed = []
    for _ in range(3):
        claimed.append(len(stage.claim()))
        stage.clock.advance(1.0)
    assert claimed == [2, 2, 2]
    assert stage.store.now() == NOON + 3


def test_a_group_is_given_up_and_others_stay(troubled: Stage) -> None:
    given = discard_group(troubled.store, GROUP)
    assert (given.documents, given.letters) == (5, 0)
    assert {troubled.state(id).status for id in "abcxy"} == {"discarded"}
    assert [one.id for one in affected(troubled.store, GROUP)] == []
    assert troubled.state("other").status == "pending"
    (letter,) = troubled.store.find_dead_letters()
    assert letter.fingerprint == "beef"
