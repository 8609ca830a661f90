"""Rung 1: an event that came before its document waits for it, a short while and uncharged."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from onward import App, Exponential, NotReady, RetryPolicy, Status, Work
from onward.settings import load_settings
from onward.testing import Simulation
from tests.support.page_app import (
    HOUR,
    MINUTE,
    Page,
    PagesFound,
    all_processed,
    bring,
    new_app,
    pages,
    raw_event,
    statuses,
)


def test_the_event_waits_until_the_document_is_there() -> None:
    app, seen = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        seen.append(page.id)

    with Simulation(app, retry_job=False) as world:
        app.publish_raw(raw_event(data={"page_ids": ["late"]}))
        world.drain()
        assert seen == []
        (late,) = pages("late")
        app.add(late)
        world.run_for(MINUTE)
        assert seen == ["late"]
        state = world.state(late)
        assert (state.status, state.attempt_count) == (Status.PROCESSED, 1), "the round began when it came"


def test_only_the_missing_ones_wait() -> None:
    app, seen = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        seen.append(page.id)

    with Simulation(app, retry_job=False) as world:
        app.add(*pages("a", "c"))
        app.publish(PagesFound(page_ids=["a", "b", "c"]))
        world.drain()
        assert seen == ["a", "c"]
        app.add(*pages("b"))
        world.run_for(MINUTE)
        assert seen == ["a", "c", "b"]


def test_a_handler_may_say_which_ones_it_cannot_read() -> None:
    app, calls = new_app(), list[list[str]]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=8)
    def read(batch: Sequence[Page], work: Work) -> None:
        calls.append([page.id for page in batch])
        torn = [page.id for page in batch if page.id == "b" and world.clock.now() < mended]
        if torn:
            raise NotReady(ids=torn)

    with Simulation(app, retry_job=False) as world:
        mended = world.clock.now() + 0.1
        bring(world, "a", "b", "c")
        world.run_for(MINUTE)
        assert calls[:2] == [["a", "b", "c"], ["a", "c"]], "the others go on at once"
        assert all(call == ["b"] for call in calls[2:])
        assert all_processed(world, "a", "b", "c")


def test_it_gives_up_after_eight_retries() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise NotReady("still being written")

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        assert world.run_for(HOUR) == 9, "the first try and eight retries"
        (letter,) = world.dead_letters("reading")
        assert letter.abandoned_reason == "max_attempts_exceeded"
        assert letter.attempt_count == 9
        assert letter.last_error == "still being written"
        assert world.status(page) == Status.PENDING, "the retry job will take it up again"


def test_a_document_that_never_comes_leaves_a_dead_letter_too() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.publish(PagesFound(page_ids=["never"]))
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        assert (letter.error_type, letter.last_error) == ("NotReady", "pages not found: never")
        assert (letter.attempt_count, world.calls) == (9, 0)
        app.add(*pages("never"))
        assert world.store.requeue(letter.row)
        world.drain()
        assert statuses(world, "never") == {"never": Status.PROCESSED}, "better late than never"


def test_its_dead_letter_is_closed_when_the_page_comes_and_is_read_for_another_event() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.publish(PagesFound(page_ids=["a"]))
        world.run_for(HOUR)
        (letter,) = world.dead_letters()
        bring(world, "a")
        world.drain()
        world.store.requeue(letter.row)
        world.drain()
        assert all_processed(world, "a")
        assert world.dead_letters() == [], "it has healed"


def test_the_waits_are_jittered_and_grow_to_a_minute() -> None:
    app, times = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        times.append(world.clock.now())
        raise NotReady

    with Simulation(app, retry_job=False, seed=7) as world:
        bring(world, "a")
        world.run_for(HOUR)
    waits = [after - before for before, after in itertools.pairwise(times)]
    assert all(wait <= min(0.25 * 2**k, 60) + 0.001 for k, wait in enumerate(waits))
    assert len({round(wait / (0.25 * 2**k), 3) for k, wait in enumerate(waits)}) == 8, "no two alike"


def test_it_gives_up_after_half_an_hour_of_being_able_to_try() -> None:
    app = new_app()
    patient = RetryPolicy(Exponential(10 * MINUTE, 1.0, cap=HOUR), max_elapsed=30 * MINUTE)

    @app.service("reading", on=PagesFound, finishes=Page, not_ready=patient)
    def read(page: Page, work: Work) -> None:
        raise NotReady

    with Simulation(app, retry_job=False) as world:
        bring(world, "a")
        assert world.run_for(2 * HOUR) == 4, "at 0, 10, 20 and 30 minutes"
        (letter,) = world.dead_letters()
        assert letter.abandoned_reason == "ttl_exceeded"


def test_a_time_to_live_of_zero_means_one_try() -> None:
    app = App(settings=load_settings({"RETRY_TTL_MINUTES": "0"}))
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.publish(PagesFound(page_ids=["never"]))
        world.drain()
        (letter,) = world.dead_letters()
        assert (letter.attempt_count, letter.abandoned_reason) == (1, "ttl_exceeded")


def test_an_outage_does_not_count_as_being_able_to_try() -> None:
    app, tries = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page, needs="website")
    def read(page: Page, work: Work) -> None:
        tries.append(world.clock.now())
        if len(tries) < 4:
            raise NotReady

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        world.store.open_breaker("website", "it is Sunday", by_hand=True)
        world.run_for(5 * HOUR)
        assert len(tries) == 1
        world.store.close_breaker("website")
        world.run_for(MINUTE)
        assert len(tries) == 4
        assert world.status(page) == Status.PROCESSED


def test_a_stopped_fleet_does_not_count_either() -> None:
    app, tries = new_app(), list[float]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        tries.append(world.clock.now())
        if len(tries) < 4:
            raise NotReady

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        world.clock.advance(5 * HOUR)  # nobody is working
        world.run_for(MINUTE)
        assert world.status(page) == Status.PROCESSED
