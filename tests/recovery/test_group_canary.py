"""A failure group goes back in growing steps, stops when failures come back, and goes on where it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest

from onward.backend_urls import open_store
from onward.model.documents import Status
from onward.model.ledger import Charge, DeadLettered, Delivery, Processed, RetryLater, SettlementPart
from onward.recovery.group_canary import CanaryCursor, CanaryEnd, GroupCanary
from onward.recovery.requeue_dead_letters import NO_WORKER, POLL_SECONDS
from tests.support.store_pages import Clock, Stage, failure

GROUP = "f00d"
PAGES = [f"page-{number:03}" for number in range(80)]


class Killed(BaseException):
    """The process is gone: nothing after this runs."""


@pytest.fixture
def stage() -> Iterator[Stage]:
    clock = Clock()
    store = open_store("sqlite://:memory:", clock)
    yield Stage(store, clock)
    store.close()


def give_up(stage: Stage, *ids: str) -> None:
    for id in ids:
        stage.bring(id)
        stage.settle(stage.take(), DeadLettered([id], failure=failure(), charge=Charge.TRY))


def done(delivery: Delivery) -> SettlementPart:
    return Processed([one.id for one in delivery.inputs])


def broken(delivery: Delivery) -> SettlementPart:
    return DeadLettered([one.id for one in delivery.inputs], failure=failure("again"), charge=Charge.TRY)


class Crew:
    """Workers that get something done whenever somebody sleeps; `seen` has how many pages each sleep found."""

    def __init__(self, stage: Stage, settle: Callable[[Delivery], SettlementPart] = done) -> None:
        self.stage, self.settle = stage, settle
        self.seen: list[int] = []

    def sleep(self, seconds: float) -> None:
        self.stage.clock.advance(seconds)
        taken = self.stage.claim()
        self.seen += [len(taken)] if taken else []
        for delivery in taken:
            self.stage.settle(delivery, self.settle(delivery))


def canary(stage: Stage, crew: Crew, saved: list[Any], **more: Any) -> GroupCanary:
    begun = more.pop("begun", stage.clock.now())
    stage.clock.advance(1)
    return GroupCanary(stage.store, GROUP, begun, sleep=crew.sleep, checkpoint=saved.append, **more)


def statuses(stage: Stage) -> dict[str, str]:
    return {state.id: str(state.status) for state in stage.store.states("pages", limit=1000)}


def rounds(stage: Stage) -> set[int]:
    return {state.round for state in stage.store.states("pages", limit=1000)}


def test_one_goes_first_then_five_then_fifty_then_the_rest(stage: Stage) -> None:
    give_up(stage, *PAGES)
    crew = Crew(stage)
    run = canary(stage, crew, [])
    assert run.run() is CanaryEnd.DONE
    crew.sleep(0)
    assert crew.seen == [1, 5, 50, 24]
    assert set(statuses(stage).values()) == {Status.PROCESSED}
    assert (run.cursor.put_back, run.cursor.processed) == (80, 56)


def test_documents_without_a_dead_letter_go_back_in_steps_too(stage: Stage) -> None:
    for id in PAGES[:8]:
        stage.bring(id)
        stage.settle(stage.take(), RetryLater([id], after=7200.0, charge=Charge.TRY, failure=failure()))
    crew = Crew(stage)
    assert canary(stage, crew, []).run() is CanaryEnd.DONE
    crew.sleep(0)
    assert crew.seen == [1, 5, 2]
    assert set(statuses(stage).values()) == {Status.PROCESSED}


def test_a_small_group_ends_when_nothing_is_left(stage: Stage) -> None:
    give_up(stage, "a", "b")
    run = canary(stage, Crew(stage), [])
    assert run.run() is CanaryEnd.DONE
    assert run.cursor.processed == 2
    assert canary(stage, Crew(stage), []).run() is CanaryEnd.DONE, "there is nothing"


def test_the_rest_stays_where_it_is_if_the_failure_comes_back(stage: Stage) -> None:
    give_up(stage, *PAGES)
    run = canary(stage, Crew(stage, broken), [])
    assert run.run() is CanaryEnd.FAILED
    assert run.message == "1 of 1 failed again: ValueError: again"
    assert run.left == 79
    assert rounds(stage) == {1, 2}
    assert run.failures[0].group == GROUP


def test_another_failure_of_the_same_documents_stops_it_too_and_is_named(stage: Stage) -> None:
    give_up(stage, *PAGES)

    def otherwise(delivery: Delivery) -> SettlementPart:
        other = replace(failure("something else"), fingerprint="beef")
        return DeadLettered([one.id for one in delivery.inputs], failure=other, charge=Charge.TRY)

    run = canary(stage, Crew(stage, otherwise), [])
    assert run.run() is CanaryEnd.FAILED
    assert run.message == "1 of 1 failed in another way (group beef): ValueError: something else"


def test_a_later_step_stops_it_as_well(stage: Stage) -> None:
    give_up(stage, *PAGES)
    run = canary(stage, Crew(stage, lambda one: broken(one) if one.inputs[0].id == "page-003" else done(one)), [])
    assert run.run() is CanaryEnd.FAILED
    assert run.message.startswith("1 of 5 failed again")
    assert (run.cursor.step, run.cursor.processed, run.left) == (1, 1, 74)


def test_a_share_of_a_step_is_enough_if_asked_for(stage: Stage) -> None:
    give_up(stage, *PAGES)
    bad = {"page-003", "page-030"}
    run = canary(
        stage, Crew(stage, lambda one: broken(one) if one.inputs[0].id in bad else done(one)), [], share=0.8
    )
    assert run.run() is CanaryEnd.DONE
    assert (run.cursor.processed, run.cursor.failed) == (54, 2)


def test_the_rest_is_stopped_when_failures_come_back_while_it_goes(stage: Stage) -> None:
    give_up(stage, *PAGES)
    crew = Crew(stage, lambda one: broken(one) if one.inputs[0].id >= "page-056" else done(one))
    run = canary(stage, crew, [], rate=8.0)
    assert run.run() is CanaryEnd.FAILED
    assert 0 < run.left < 24


def test_a_step_waits_for_the_retries_of_its_documents(stage: Stage) -> None:
    give_up(stage, "a", "b")
    tries: list[str] = []

    def at_last(delivery: Delivery) -> SettlementPart:
        tries.append(delivery.inputs[0].id)
        if len(tries) == 1:
            return RetryLater(["a"], after=5.0, charge=Charge.TRY, failure=failure())
        return done(delivery)

    assert canary(stage, Crew(stage, at_last), []).run() is CanaryEnd.DONE
    assert tries == ["a", "a", "b"]


def test_without_a_worker_it_says_so_and_ends_at_last(stage: Stage) -> None:
    give_up(stage, "a", "b")
    hints: list[str] = []
    run = canary(
        stage,
        Crew(stage),
        [],
        patience=10 * POLL_SECONDS,
        report=lambda canary, hint: hints.append(hint),
    )
    run.sleep = stage.clock.advance
    assert run.run() is CanaryEnd.UNANSWERED
    assert NO_WORKER in hints
    assert NO_WORKER in run.message
    assert len(run.cursor.items) == 1, "it goes on with waiting for it"


def test_a_rate_holds_within_a_step(stage: Stage) -> None:
    give_up(stage, *PAGES[:6])
    pauses: list[float] = []
    crew = Crew(stage)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        crew.sleep(seconds)

    run = canary(stage, crew, [], rate=0.5)
    run.sleep = run._requeue.sleep = sleep
    assert run.run() is CanaryEnd.DONE
    assert sum(pauses) >= 2 * 5


# -- going on


@pytest.mark.parametrize("point", range(1, 12))
def test_whenever_it_is_killed_it_goes_on_and_nothing_is_put_back_twice(stage: Stage, point: int) -> None:
    give_up(stage, *PAGES[:20])
    for id in PAGES[20:30]:
        stage.bring(id)
        stage.settle(stage.take(), RetryLater([id], after=7200.0, charge=Charge.TRY, failure=failure()))
    saved: list[Any] = []
    begun = stage.clock.now()
    run = canary(stage, Crew(stage), saved)
    steps = iter(range(point, -1, -1))

    def dies(cursor: Any) -> None:
        saved.append(cursor)
        if next(steps, -1) == 0:
            raise Killed

    run.checkpoint = dies
    try:
        run.run()
    except Killed:
        cursor = CanaryCursor.read(saved[-1])
        again = canary(stage, Crew(stage), saved, begun=begun, cursor=cursor)
        assert again.run() is CanaryEnd.DONE
        assert again.cursor.put_back == 30
    Crew(stage).sleep(0)
    assert set(statuses(stage).values()) == {Status.PROCESSED}
    found = {state.id: state.round for state in stage.store.states("pages", limit=1000)}
    assert {found[id] for id in PAGES[:20]} == {2}, "one round more for each dead letter"
    assert {found[id] for id in PAGES[20:30]} == {1}, "their event was waiting"


def test_killed_between_two_dead_letters_of_a_step_only_the_others_are_put_back(stage: Stage) -> None:
    give_up(stage, *PAGES[:6])
    saved: list[Any] = []
    begun, put = stage.clock.now(), 0
    run = canary(stage, Crew(stage), saved)

    def dies(canary: GroupCanary, hint: str) -> None:
        nonlocal put
        put += not hint
        if put == 4:
            raise Killed

    run.report = dies
    with pytest.raises(Killed):
        run.run()
    Crew(stage).sleep(0)  # meanwhile the workers go on
    again = canary(stage, Crew(stage), saved, begun=begun, cursor=CanaryCursor.read(saved[-1]))
    assert again.run() is CanaryEnd.DONE
    assert rounds(stage) == {2}


def test_what_fails_after_the_kill_is_noticed_when_it_goes_on(stage: Stage) -> None:
    give_up(stage, *PAGES[:20])
    saved: list[Any] = []
    begun = stage.clock.now()
    run = canary(stage, Crew(stage), saved)

    def dies(canary: GroupCanary, hint: str) -> None:
        if canary.cursor.step == 1:
            raise Killed  # with the first of five

    run.report = dies
    with pytest.raises(Killed):
        run.run()
    Crew(stage, broken).sleep(1)
    again = canary(stage, Crew(stage), saved, begun=begun, cursor=CanaryCursor.read(saved[-1]))
    assert again.run() is CanaryEnd.FAILED
    assert again.message.startswith("1 of 5 failed again")


def test_after_a_failed_step_it_goes_on_with_others(stage: Stage) -> None:
    give_up(stage, *PAGES[:10])
    saved: list[Any] = []
    begun = stage.clock.now()
    assert canary(stage, Crew(stage, broken), saved).run() is CanaryEnd.FAILED
    again = canary(stage, Crew(stage), saved, begun=begun, cursor=CanaryCursor.read(saved[-1]))
    assert again.run() is CanaryEnd.DONE
    Crew(stage).sleep(0)
    assert list(statuses(stage).values()).count(Status.PROCESSED) == 9
    assert stage.state("page-000").status == Status.PENDING, "it failed again, and waits for the retry job"
