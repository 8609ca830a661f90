"""Rounds: what is published twice is done once, and what has moved on is left alone."""

from __future__ import annotations

import logging

import pytest

from onward import Event, Status, Work, names
from onward.testing import Simulation
from tests.support.page_app import HOUR, MINUTE, Page, PagesFound, Word, bring, new_app, pages, raw_event


def test_an_event_that_waits_already_is_a_duplicate_and_costs_no_round() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        (again,) = app.publish(PagesFound.of(page))
        assert (again.rows, again.duplicates) == (0, 1)
        assert world.drain() == 1
        assert world.state(page).attempt_count == 1


def test_the_order_of_ids_makes_no_difference() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        bring(world, "a", "b")
        (again,) = app.publish(PagesFound(page_ids=["b", "a"]))
        assert again.duplicates == 1
        (other,) = app.publish(PagesFound(page_ids=["a", "b"], found_by="somebody else"))
        assert other.duplicates == 0, "all that it says counts"


def test_a_message_that_is_sent_twice_is_taken_once() -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.add(*pages("a"))
        message = raw_event(event_id="their-7", data={"page_ids": ["a"]})
        first = app.publish_raw(message)
        world.drain()
        second = app.publish_raw(message)
        assert first is not None
        assert second is not None
        assert (first.rows, second.rows, second.duplicates) == (1, 0, 1)
        assert first.event_id == "their-7"


def test_a_page_that_is_final_is_skipped(caplog: pytest.LogCaptureFixture) -> None:
    app = new_app()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    with caplog.at_level(logging.DEBUG, "onward"), Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        app.publish(PagesFound.of(page))
        world.drain()
        assert world.calls == 1
        assert world.state(page).attempt_count == 1
    assert caplog.messages[-1] == "reading: pages/a is final, skipped"
    assert caplog.records[0].levelno == logging.DEBUG


def test_a_service_that_does_not_finish_pages_hears_of_final_ones_too() -> None:
    app, heard = new_app(), list[str]()
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    app.service("counting", on=PagesFound)(lambda event, work: heard.append("again"))
    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        app.publish(PagesFound.of(page))
        world.drain()
        assert heard == ["again", "again"]


def test_a_newer_round_supersedes_what_is_under_way() -> None:
    app, tries = new_app(), list[int]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        tries.append(work.round)
        if work.round == 1:
            app.publish(PagesFound.of(page, found_by="somebody else"))
            work.add(Word(id="of the older round"))

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        assert tries == [1, 2]
        assert app.get(Word, "of the older round") is None
        state = world.state(page)
        assert (state.status, state.attempt_count, state.round) == (Status.PROCESSED, 2, 2)


def test_an_operators_reset_supersedes_it_too() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        assert world.store.reset("pages", "a")
        assert world.run_for(HOUR) == 0, "the older round is not tried again"
        state = world.state(page)
        assert (state.status, state.attempt_count, state.last_error) == (Status.PENDING, 0, None)
        app.publish(PagesFound.of(page))
        world.run_for(HOUR)
        assert world.state(page).attempt_count == 1


def test_a_discarded_page_is_left_alone() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise ConnectionError

    with Simulation(app, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        assert world.store.discard("pages", "a")
        assert world.run_for(HOUR) == 0
        assert world.status(page) == Status.DISCARDED
        assert world.dead_letters() == []


def test_a_forgotten_source_does_not_come_back() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        world.store.forget("site")
        work.add(Word(id="back from the dead"))

    with Simulation(app, retry_job=False) as world:
        found = pages("a")
        app.publish(PagesFound.of(found), documents=found, source="site")
        world.run_for(HOUR)
        assert world.store.document_counts() == {}
        assert world.store.counts() == {}


# -- versions of events


class Scanned(Event):
    page_ids: list[str] = names(Page)


def test_an_event_of_a_newer_version_waits_for_a_newer_worker() -> None:
    app = new_app()
    app.service("scanning", on=Scanned, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.add(*pages("a"))
        app.publish_raw(raw_event("Scanned", version=2, data={"page_ids": ["a"], "dpi": 300}))
        for _ in range(20):
            world.store.register_worker("a newer worker", {"services": {"scanning": 2}})
            world.run_for(MINUTE)
        assert world.calls == 0
        assert world.dead_letters() == [], "it is released for the one who knows it"
        assert world.store.counts() == {"scanning": {"waiting": 1}}


def test_without_one_it_is_a_dead_letter_that_says_what_to_do() -> None:
    app = new_app()
    app.service("scanning", on=Scanned, finishes=Page)(lambda page, work: None)
    with Simulation(app, retry_job=False) as world:
        app.add(*pages("a"))
        raw = raw_event("Scanned", version=2, data={"page_ids": ["a"], "dpi": 300})
        app.publish_raw(raw)
        world.run_for(HOUR)
        (letter,) = world.dead_letters("scanning")
        assert letter.abandoned_reason == "malformed"
        assert letter.last_error == (
            "Scanned has version 2, this worker knows 1 and no newer worker is alive; start one, then requeue"
        )
        assert letter.raw == raw, "its exact bytes"
        assert world.status(Page(id="a")) == Status.PENDING
