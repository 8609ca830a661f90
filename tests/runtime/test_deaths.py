"""A crash is counted apart: an event that kills its worker again and again is found out, and given up."""

from __future__ import annotations

from collections.abc import Sequence

from onward import Status, Work
from onward.testing import Simulation
from tests.support.killed_worker import crashing
from tests.support.page_app import HOUR, MINUTE, Noticed, Page, PagesFound, all_processed, bring, new_app, statuses


def die(world: Simulation, *, service: str = "reading", running: bool = True) -> int:
    """A worker claims what is due and dies, with its supervisor watching; answer how many events it had."""
    held = [
        delivery.row
        for suspects in (False, True)
        for delivery in world.store.claim("doomed", service, limit=10, lease=60, suspects=suspects)
    ]
    return world.store.record_crash("doomed", held if running else [])


def test_a_death_or_two_are_forgiven() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        assert die(world) == die(world) == 1
        world.drain()
        state = world.state(page)
        assert (state.status, state.attempt_count) == (Status.PROCESSED, 1)


def test_three_deaths_are_a_crash_loop() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        for _ in range(3):
            die(world)
        world.run_for(HOUR)
        assert world.calls == 0
        (letter,) = world.dead_letters()
        assert (letter.abandoned_reason, letter.deaths, letter.attempt_count) == ("crash_loop", 3, 0)
        assert letter.last_error == (
            "the worker process died 3 times while service 'reading' handled this, "
            "the last time alone in its process"
        )
        assert world.status(page) == Status.FAILED


def test_an_event_without_documents_can_be_one_too() -> None:
    app = new_app()
    app.service("listening", on=Noticed)(lambda event, work: None)
    with Simulation(app) as world:
        app.publish(Noticed())
        for _ in range(3):
            die(world, service="listening")
        world.drain()
        assert [letter.abandoned_reason for letter in world.dead_letters()] == ["crash_loop"]


def test_what_was_claimed_but_not_running_is_innocent() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        bring(world, "a")
        for _ in range(10):
            assert die(world, running=False) == 1
        world.drain()
        assert all_processed(world, "a")


def test_of_several_documents_only_the_killer_is_given_up() -> None:
    app, deaths = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=4)
    def read(batch: Sequence[Page], work: Work) -> None:
        ids = "".join(page.id for page in batch)
        if "c" in ids:
            deaths.append(ids)
            fragile.crash_after(0)
            work.checkpoint("in vain")

    with Simulation(app) as world:
        fragile = crashing(world)
        bring(world, *"abcd")
        while fragile.crashes(lambda: world.run_for(HOUR)):
            pass
        assert all_processed(world, "a", "b", "d")
        assert statuses(world, "c") == {"c": Status.FAILED}
        (letter,) = world.dead_letters()
        assert letter.abandoned_reason == "crash_loop"
        assert (deaths[0], deaths[-1]) == ("abcd", "c")


def test_a_lapsed_lease_is_no_failed_try() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.store.claim("lost", "reading", limit=1, lease=60)
        assert world.run_for(30) == 0
        assert world.run_for(MINUTE) == 1
        assert world.state(page).attempts["total"] == 1
