"""Cancelling: what waits is not begun, what is running is not committed, and everything else goes on."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from onward import App, CallFailed, Status, Work
from onward.model.failures import outcomes
from onward.runtime.document_access import UnknownDocument
from onward.runtime.task_call import CallNotFound
from onward.runtime.work import WorkRefused
from onward.testing import Simulation
from tests.support.caller_connections import connected
from tests.support.page_app import HOUR, MINUTE, Page, PagesFound, Word, bring, new_app, pages


def reading(**handlers: Any) -> tuple[App, list[str]]:
    """An app whose service reads pages; a page may have a handler of its own."""
    app, read = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def handle(page: Page, work: Work) -> None:
        handlers.get(page.id, lambda work: None)(work)
        work.add(Word(id=page.id))
        read.append(page.id)

    return app, read


def test_a_document_that_waits_is_not_tried_any_more(store_url: str) -> None:
    app, read = reading()
    with Simulation(app, store=store_url) as world:
        cancelled, other = bring(world, "a", "b")
        assert app.cancel(Page, "a", by="anna") is True
        assert world.state(cancelled).status == Status.DISCARDED
        (outcome,) = outcomes(world.state(cancelled).attempts)
        assert (outcome["outcome"], outcome["by"], outcome["at"]) == ("cancelled", "anna", world.clock.now())
        world.run_for(48 * HOUR)
        assert (read, world.state(other).status) == (["b"], Status.PROCESSED), "others of its event go on"
        assert world.state(cancelled).status == Status.DISCARDED
        app.publish(PagesFound.of(cancelled))
        world.drain()
        assert read == ["b"], "nor by another event"


def test_an_event_whose_documents_are_all_cancelled_leaves_the_ledger(store_url: str) -> None:
    app, _ = reading()
    with Simulation(app, store=store_url) as world:
        bring(world, "a", delay=HOUR)
        assert asyncio.run(app.acancel("pages", "a")) is True
        assert world.store.counts()["reading"] == {"done": 1}
        (outcome,) = outcomes(world.state(Page(id="a")).attempts)
        assert outcome["by"], "the user of this process"


def test_what_is_final_already_stays_as_it_is(store_url: str) -> None:
    app, _ = reading()
    with Simulation(app, store=store_url, retry_job=False) as world:
        (page,) = bring(world, "a")
        world.drain()
        app.add(Word(id="of no service"))
        assert app.cancel(Page, "a") is False
        assert app.cancel(Word, "of no service") is False
        assert world.state(page).status == Status.PROCESSED
        bring(world, "b")
        assert (app.cancel(Page, "b"), app.cancel(Page, "b")) == (True, False)


def test_an_unknown_document_is_an_error_with_the_remedy(store_url: str) -> None:
    app, _ = reading()
    with Simulation(app, store=store_url):
        with pytest.raises(
            UnknownDocument, match=r"no document pages/nobody; .* onward documents --collection pages"
        ):
            app.cancel(Page, "nobody")
        with pytest.raises(LookupError):
            asyncio.run(app.acancel("nothings", "a"))


def test_a_document_that_waits_in_incoming_is_cancelled(store_url: str) -> None:
    app, read = reading()
    with Simulation(app, store=store_url) as world, connected(store_url) as connection:
        app.publish(PagesFound(page_ids=["a"]), documents=pages("a"), connection=connection)
        connection.commit()
        assert app.cancel(Page, "a") is True
        world.drain()
        assert read == []


def test_what_is_running_is_not_committed(store_url: str) -> None:
    def cancel(work: Work) -> None:
        app.cancel(Page, "a")

    app, read = reading(a=cancel)
    with Simulation(app, store=store_url) as world:
        (page, other) = bring(world, "a", "b")
        world.run_for(HOUR)
        assert world.state(page).status == Status.DISCARDED
        assert (app.get(Word, "a"), app.get(Word, "b")) == (None, Word(id="b"))
        assert world.state(other).status == Status.PROCESSED
        assert read.count("a") == 1, "the handler was not interrupted, nor called again"
        assert world.store.counts()["reading"] == {"done": 1}


def test_a_checkpoint_of_what_was_cancelled_is_refused(store_url: str) -> None:
    refused: list[str] = []

    def cancelled_meanwhile(work: Work) -> None:
        work.add(Word(id="before"))
        work.checkpoint(1)
        app.cancel(Page, "a")
        work.add(Word(id="after"))
        try:
            work.checkpoint(2)
        except WorkRefused:
            refused.append("a")
            raise

    app, _ = reading(a=cancelled_meanwhile)
    with Simulation(app, store=store_url) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        assert (refused, world.state(page).status) == (["a"], Status.DISCARDED)
        assert (app.get(Word, "before"), app.get(Word, "after")) == (Word(id="before"), None)


def test_an_async_handler_learns_of_it_at_its_checkpoint(store_url: str) -> None:
    refused: list[str] = []
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def handle(page: Page, work: Work) -> None:
        app.cancel(Page, page.id)
        try:
            await work.checkpoint(1)
        except WorkRefused:
            refused.append(page.id)
            raise

    with Simulation(app, store=store_url) as world:
        (page,) = bring(world, "a")
        world.run_for(HOUR)
        assert (refused, world.state(page).status) == (["a"], Status.DISCARDED)


def test_a_failure_of_what_was_cancelled_meanwhile_changes_nothing(store_url: str) -> None:
    def fail(work: Work) -> None:
        app.cancel(Page, "a")
        raise ConnectionError("no answer")

    app, _ = reading(a=fail)
    with Simulation(app, store=store_url) as world:
        (page,) = bring(world, "a")
        world.run_for(48 * HOUR)
        assert (world.state(page).status, world.calls, world.dead_letters()) == (Status.DISCARDED, 1, [])


def test_its_dead_letter_is_closed_and_the_retry_job_leaves_it_alone(store_url: str) -> None:
    def fail(work: Work) -> None:
        raise ConnectionError("no answer")

    app, _ = reading(a=fail)
    with Simulation(app, store=store_url) as world:
        (page,) = bring(world, "a")
        world.run_for(MINUTE)
        assert len(world.dead_letters()) == 1
        assert app.cancel(Page, "a") is True
        assert world.dead_letters() == []
        calls = world.calls
        world.run_for(48 * HOUR)
        assert (world.state(page).status, world.calls) == (Status.DISCARDED, calls)


def test_a_person_may_bring_it_back(store_url: str) -> None:
    app, read = reading()
    with Simulation(app, store=store_url) as world:
        (page,) = bring(world, "a")
        app.cancel(Page, "a")
        world.store.schedule([("pages", "a")], world.clock.now())
        world.run_for(HOUR)
        assert (read, world.state(page).status) == (["a"], Status.PROCESSED)


def test_a_call_of_a_task_is_cancelled(store_url: str) -> None:
    app, ran = new_app(), list[int]()

    @app.task
    def add(a: int, b: int) -> int:
        ran.append(a + b)
        return a + b

    with Simulation(app, store=store_url) as world:
        call, other = add.delay(1, 2), add.delay(3, 4)
        assert (call.cancel(), call.cancel()) == (True, False)
        world.drain()
        assert (ran, call.done(), other.result(0)) == ([7], True, 7)
        with pytest.raises(CallFailed, match=r"was cancelled by \w+; see it with: onward show add_calls/"):
            call.result(0)
        assert other.cancel() is False
        with pytest.raises(CallNotFound):
            add.call("nobody").cancel()
