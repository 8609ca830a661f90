"""The simulation's time is its own: a handler that mixes it with another time is told, and nothing hangs."""

from __future__ import annotations

import itertools

import pytest

from onward import Status, Work
from onward.testing import SimulatedClock, Simulation
from tests.support.page_app import DAY, HOUR, Noticed, Page, PagesFound, bring, new_app


def test_a_wait_until_a_time_before_the_simulation_is_refused() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.wait(1_600_000_000.0)  # as time.time() would give, once

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        assert world.run_for(HOUR) == 1
        assert world.status(page) == Status.FAILED
        assert "work.now" in world.dead_letters()[0].last_error


def test_a_handler_that_follows_another_clock_is_named() -> None:
    """Each call takes a millisecond of that clock: a simulated day would take as long as a real one."""
    app, others = new_app(), itertools.count()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        work.wait(1_800_000_060.0 + next(others) / 1000)

    with Simulation(app) as world:
        bring(world, "a")
        with pytest.raises(AssertionError, match=r"'reading' .* pages/a .* work\.now"):
            world.run_for(DAY)
        assert world.calls < 1_000


def test_a_handler_that_emits_its_own_event_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("onward.testing.simulation.MAX_PASSES_AT_ONCE", 100)
    app, numbers = new_app(), itertools.count()

    @app.service("listening", on=Noticed)
    def listen(event: Noticed, work: Work) -> None:
        work.emit(Noticed(what=f"{next(numbers)}"))

    with Simulation(app) as world:
        app.publish(Noticed())
        with pytest.raises(AssertionError, match="emit"):
            world.drain()


def test_polling_now_and_then_is_fine() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if work.now < 1_800_000_000.0 + 60:
            work.wait(seconds=1)

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        assert world.run_for(120) == 61
        assert world.status(page) == Status.PROCESSED


def test_a_clock_begins_at_its_start() -> None:
    clock = SimulatedClock(start=5.0)
    clock.advance(2.0)
    assert clock.now() == 7.0
