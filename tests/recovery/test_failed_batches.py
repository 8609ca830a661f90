"""Failed batches: retried together at their times, rid of their poison, and never given up."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest

from onward import App, Permanent, Work
from onward.model.ledger import FailedBatch
from onward.ops.actions.action import ActionProgress, Actor
from onward.ops.actions.failure_groups import RetryFailedBatches
from onward.recovery.requeue_documents import DocumentRequeue, RequeuePlan
from onward.retry import Ladder
from onward.testing import Simulation
from tests.support.page_app import DAY, HOUR, MINUTE, Page, PagesFound, bring, new_app, pages, statuses


class Press:
    """A service that reads pages in batches; `bad` says which fail, and how."""

    def __init__(self, *, at_once: bool = False) -> None:
        self.app: App = new_app()
        self.bad: dict[str, Exception] = {}
        self.calls: list[tuple[float, list[str]]] = []
        """When it was called, with which pages."""
        self.world = Simulation(self.app)

        @self.app.service("reading", on=PagesFound, finishes=Page, batch=8, sets_aside=True)
        def read(found: Sequence[Page], work: Work) -> None:
            self.calls.append((self.world.clock.now(), [page.id for page in found]))
            for page in found:
                if page.id in self.bad and at_once:
                    work.set_aside(page, self.bad[page.id])
                elif page.id in self.bad:
                    raise self.bad[page.id]

    def fail(self, *ids: str) -> None:
        """Have these pages set aside."""
        self.bad = dict.fromkeys(ids, RuntimeError("not today"))
        bring(self.world, *ids, source="s")
        self.world.run_for(50.0)
        assert sorted(id for _, id in self.batch().items) == sorted(ids)
        assert self.batch().retry_count == 0

    def batch(self) -> FailedBatch:
        (batch,) = self.world.store.failed_batches("s")
        return batch

    def retries(self) -> int:
        return int(self.world.store.totals().get("failed_batches_retried_total", {}).get("reading", 0))


def test_poison_fails_on_its_own_and_the_rest_recovers() -> None:
    press = Press()
    ids = [f"p{n}" for n in range(8)]
    with press.world as world:
        press.fail(*ids)
        press.bad = {"p5": Permanent("it is poison")}
        world.run_for(10 * MINUTE)
        assert statuses(world, *ids) == dict.fromkeys(ids, "processed") | {"p5": "failed"}
        assert world.store.failed_batches() == []
        (letter,) = world.dead_letters()
        assert letter.documents == (("pages", "p5"),)
        assert {world.state(page).attempt_count for page in pages(*ids)} == {2}, "one retry was all it took"
        calls = len(press.calls)
        world.run_for(DAY)
        assert len(press.calls) == calls, "nothing of it comes back"


def test_partial_success_shrinks_a_batch() -> None:
    press = Press()
    with press.world as world:
        press.fail("a", "b", "c")
        before = press.batch()
        del press.bad["b"]
        world.run_for(3 * MINUTE)
        after = press.batch()
        assert (after.id, after.retry_count) == (before.id, 1)
        assert sorted(id for _, id in after.items) == ["a", "c"]
        assert statuses(world, "a", "b", "c") == {"a": "pending", "b": "processed", "c": "pending"}
        press.bad.clear()
        world.run_for(10 * MINUTE)
        assert world.store.failed_batches() == []
        assert press.retries() == 2


def test_the_schedule_is_1_5_10_20_40_and_then_every_60_minutes() -> None:
    press = Press(at_once=True)
    with press.world as world:
        press.fail("a", "b")
        world.run_for(6 * HOUR)
        waited = [later - at for (at, _), (later, _) in pairwise(press.calls)]
        minutes = (1, 5, 10, 20, 40, 60, 60, 60, 60)
        assert waited[: len(minutes)] == pytest.approx([one * MINUTE for one in minutes], abs=0.01)
        assert {tuple(ids) for _, ids in press.calls} == {("a", "b")}, "together"


@pytest.mark.prove
def test_a_batch_is_persistent_from_its_tenth_retry_on_and_never_given_up() -> None:
    press, policy = Press(at_once=True), Ladder().failed_batch
    with press.world as world:
        press.fail("a")
        while press.batch().retry_count < 9:
            world.run_for(MINUTE)
        assert not policy.persistent(press.batch().retry_count)
        world.run_for(HOUR)
        assert press.batch().retry_count == 10
        assert policy.persistent(press.batch().retry_count)
        world.run_for(3 * DAY)
        assert press.batch().retry_count == 10 + 72
        (page,) = pages("a")
        assert (world.status(page), world.state(page).attempt_count) == ("pending", 1 + 82)
        press.bad.clear()
        world.run_for(HOUR)
        assert world.status(page) == "processed"
        assert world.store.failed_batches() == []


def test_a_retry_by_hand_is_not_counted_and_the_schedule_goes_on() -> None:
    press = Press(at_once=True)
    by_hand, ada = RetryFailedBatches(everything=True), Actor("ada", "console")
    with press.world as world:
        press.fail("a", "b")
        world.run_for(2 * MINUTE)  # the first retry, after 1 min
        before, calls = press.batch(), len(press.calls)
        assert before.retry_count == 1
        for number in range(1, 13):
            assert by_hand.run(press.app, ActionProgress(), ada).touched == 2
            world.run_for(5.0)
            assert len(press.calls) == calls + number
        after = press.batch()
        assert (after.retry_count, after.retry_after) == (1, before.retry_after)
        assert not Ladder().failed_batch.persistent(after.retry_count), "12 retries by hand are none of its 10"
        assert press.retries() == 1
        world.run_for(after.retry_after - world.clock.now() + 1)
        assert press.batch().retry_count == 2
        assert press.batch().retry_after == pytest.approx(after.retry_after + 10 * MINUTE, abs=1)
        press.bad.clear()
        by_hand.run(press.app, ActionProgress(), ada)
        world.run_for(5.0)
        assert statuses(world, "a", "b") == {"a": "processed", "b": "processed"}
        assert world.store.failed_batches() == []


def test_a_large_batch_is_put_back_whole_and_each_item_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(DocumentRequeue, "at_once", 4)
    press = Press(at_once=True)
    ids = [f"p{n}" for n in range(8)]
    with press.world as world:
        press.fail(*ids)
        world.run_for(MINUTE)
        assert press.batch().retry_count == 1
        assert {world.state(page).attempt_count for page in pages(*ids)} == {2}


def test_what_fails_again_while_the_rest_is_put_back_waits_for_the_next_retry(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A worker may be faster than the retry job, which must not go round and round."""
    monkeypatch.setattr(DocumentRequeue, "at_once", 2)
    press = Press(at_once=True)
    ids = [f"p{n}" for n in range(6)]
    with press.world as world:
        press.fail(*ids)
        back = world.retry_job._back
        plan, slices = back.plan, list[int]()

        def work_and_plan(*given: Any) -> RequeuePlan:
            slices.append(1)
            assert len(slices) <= 5, "it goes round and round"
            if len(slices) > 1:
                world.clock.advance(1.0)
                world._retries = False
                world.drain()
                world._retries = True
            return plan(*given)

        monkeypatch.setattr(back, "plan", work_and_plan)
        world.run_for(MINUTE)
        assert press.batch().retry_count == 1
        assert {world.state(page).attempt_count for page in pages(*ids)} == {2}
