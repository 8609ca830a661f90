"""An outage burns nothing on the upper rungs either: what waits for its next round or retry waits on."""

from __future__ import annotations

import pytest

from onward import DocumentState, Work
from onward.testing import Simulation
from tests.support.page_app import HOUR, MINUTE, Page, PagesFound, bring, new_app

OUTAGE = 30 * HOUR
"""Longer than anything that is not heard of is waited for."""


class Press:
    """A service that needs a model. It gives up, or sets aside, what fails."""

    def __init__(self, *, sets_aside: bool) -> None:
        self.app = new_app()
        self.app.dependency("model", health=lambda: True)
        self.bad = True
        self.world = Simulation(self.app)

        @self.app.service("reading", on=PagesFound, finishes=Page, needs="model", sets_aside=sets_aside)
        def read(page: Page, work: Work) -> None:
            if page.id == "bad" and self.bad:
                raise RuntimeError("it would not be read")

    def fail(self) -> None:
        """A page fails for a reason of its own, which is over soon after."""
        bring(self.world, "bad", source="s")
        self.world.run_for(30.0)
        assert (self.state().row, self.state().attempt_count) == (None, 1)
        self.bad = False

    def begin_outage(self, seconds: float) -> None:
        """The model is down, and that is found out."""
        self.world.fail("model", for_seconds=seconds)
        bring(self.world, "another")
        self.world.run_for(5.0)
        (breaker,) = self.world.store.breakers()
        assert breaker.open

    def state(self) -> DocumentState:
        state = self.world.store.state(Page, "bad")
        assert state is not None
        return state

    def batch(self) -> tuple[int, int]:
        """How often the failed batch was retried, and how many items it has."""
        (batch,) = self.world.store.failed_batches()
        return batch.retry_count, len(batch.items)

    def counts(self) -> tuple[int, int, float | None, int]:
        state = self.state()
        return state.attempt_count, state.round, state.last_attempt_time, state.attempts["total"]


@pytest.mark.prove
def test_a_document_whose_round_has_failed_waits_for_the_end_of_an_outage() -> None:
    press = Press(sets_aside=False)
    with press.world as world:
        press.fail()
        press.begin_outage(OUTAGE)
        before = press.counts()
        for _ in range(29):
            world.run_for(HOUR)
            assert press.counts() == before
            assert (press.state().status, press.state().row) == ("pending", None)
        world.run_for(2 * HOUR)
        assert (press.state().status, press.state().attempt_count) == ("processed", 2)
        assert world.dead_letters() == [], "success has closed it"


@pytest.mark.prove
def test_a_document_that_has_had_its_rounds_is_not_given_up_before_the_end() -> None:
    press = Press(sets_aside=False)
    with press.world as world:
        world._retries = False  # the retry job was not running when its last round failed
        bring(world, "bad")
        for _ in range(5):
            world.app.publish(PagesFound(page_ids=["bad"]))
            world.run_for(MINUTE)
        press.begin_outage(OUTAGE)
        world._retries = True
        world.run_for(OUTAGE - HOUR)
        assert (press.state().status, press.state().attempt_count) == ("pending", 5)
        world.run_for(2 * HOUR)
        assert (press.state().status, press.state().attempt_count) == ("failed_max_retries", 5)


@pytest.mark.prove
def test_a_failed_batch_waits_for_the_end_of_an_outage() -> None:
    press = Press(sets_aside=True)
    with press.world as world:
        press.fail()
        press.begin_outage(OUTAGE)
        before = press.counts()
        for _ in range(29):
            world.run_for(HOUR)
            assert press.counts() == before
            assert press.batch() == (0, 1)
        world.run_for(2 * HOUR)
        assert (press.state().status, press.state().attempt_count) == ("processed", 2)
        assert world.store.failed_batches() == []


@pytest.mark.prove
@pytest.mark.parametrize("sets_aside", (False, True))
def test_what_was_put_back_just_before_an_outage_waits_on_the_ledger(sets_aside: bool) -> None:
    press = Press(sets_aside=sets_aside)
    with press.world as world:
        press.fail()
        world.clock.advance(10 * MINUTE)
        assert world.retry_job.run().touched == 1
        press.begin_outage(OUTAGE)
        state = press.state()
        assert (state.attempt_count, state.row is not None) == (2, True)
        before = press.counts()[:3]
        for _ in range(29):
            world.run_for(HOUR)
            assert press.counts()[:3] == before, "it may probe, and is not charged for that"
            assert press.state().row is not None
        world.run_for(2 * HOUR)
        assert (press.state().status, press.state().attempt_count) == ("processed", 2)


@pytest.mark.parametrize("sets_aside", (False, True))
def test_it_comes_back_within_minutes_of_the_end(sets_aside: bool) -> None:
    press = Press(sets_aside=sets_aside)
    with press.world as world:
        press.fail()
        press.begin_outage(2 * HOUR)
        while world.store.breakers()[0].open:
            world.run_for(30.0)
        world.run_for(3 * MINUTE)
        assert press.state().status == "processed"
