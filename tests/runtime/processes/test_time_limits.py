"""A handler that takes too long: a coroutine is cancelled, a thread takes its process with it."""

from __future__ import annotations

import asyncio
import gc
import logging
import threading
from contextlib import suppress

import pytest

from onward.app import App
from onward.runtime import outcomes
from onward.runtime.engine import Ending
from onward.runtime.work import Work
from tests.runtime.processes.stage import AT_ONCE, Observed, Page, PagesFound, Running, bring, came, state

pytestmark = pytest.mark.prove


def test_an_async_handler_is_cancelled_and_charged_a_try(app: App) -> None:
    tries = []

    @app.service("reading", on=PagesFound, finishes=Page, time_limit=0.01, policy=AT_ONCE)
    async def read(page: Page, work: Work) -> None:
        if page.id == "slow":
            tries.append(work.try_number)
            await asyncio.Event().wait()

    observed = Observed(app)
    bring(app, "slow", "quick")
    with Running(app):
        assert observed.saw(outcomes.GaveUp)
        assert observed.finished(1)
    assert tries == [1, 2, 3]
    (letter,) = app.store.dead_letters()
    assert (letter.abandoned_reason, letter.attempt_count) == ("max_attempts_exceeded", 3)
    assert letter.error_type == "HandlerTimeout"
    assert "time limit of 0.01 s" in letter.last_error
    assert state(app, "quick").status == "processed"


def test_an_async_handler_that_is_looked_at_late_is_cancelled_first(
    app: App, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "onward.runtime.engine.CANCEL_GRACE_SECONDS", 0.0
    )  # the machine was too busy to look any earlier
    handled = threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, time_limit=0.01, policy=AT_ONCE)
    async def read(page: Page, work: Work) -> None:
        if work.try_number == 1:
            await asyncio.Event().wait()
        handled.set()

    bring(app, "slow")
    with Running(app):
        assert came(handled), "the process goes on, and tries again"


def test_the_next_call_of_a_slot_does_not_feel_the_cancellation(app: App) -> None:
    seen = []

    @app.service("reading", on=PagesFound, finishes=Page, time_limit=0.5, policy=AT_ONCE, concurrency=1)
    async def read(page: Page, work: Work) -> None:
        if page.id == "slow" and work.try_number == 1:
            await asyncio.Event().wait()
        task = asyncio.current_task()
        seen.append(task.cancelling() if task else None)

    observed = Observed(app)
    bring(app, "slow", "quick")
    with Running(app):
        assert observed.finished(2)
    assert seen == [0, 0]


def test_a_def_handler_is_charged_a_try_and_the_process_has_to_end(app: App) -> None:
    observed, never = Observed(app), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, time_limit=0.5, policy=AT_ONCE)
    def read(page: Page, work: Work) -> None:
        if page.id == "slow":
            never.wait()

    bring(app, "slow", "quick")
    with Running(app) as running:
        assert running.join() is Ending.STUCK
    assert observed.of(outcomes.Retried) == [("reading", ("slow",))]
    (waiting,) = app.store.claim("somebody else", "reading", limit=10, lease=60)
    assert (waiting.inputs[0].id, waiting.tries) == ("slow", 1)
    assert state(app, "quick").status == "processed"
    never.set()


def test_a_neighbour_of_a_stuck_handler_is_finished_first(app: App) -> None:
    never, go_on, begun = threading.Event(), threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        begun.set()
        came(go_on)

    @app.service("hanging", on=PagesFound, time_limit=0.01)
    def hang(event: PagesFound, work: Work) -> None:
        came(begun)
        never.wait()

    observed = Observed(app)
    bring(app, "a")
    with Running(app) as running:
        assert observed.saw(outcomes.Retried)
        go_on.set()
        assert running.join() is Ending.STUCK
    assert state(app, "a").status == "processed"
    never.set()


def test_a_coroutine_that_will_not_be_cancelled_counts_as_stuck(
    app: App, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "asyncio")  # it says that the coroutine never ended

    @app.service("reading", on=PagesFound, finishes=Page, time_limit=0.01)
    async def read(page: Page, work: Work) -> None:
        while True:
            with suppress(asyncio.CancelledError):
                await asyncio.sleep(0.05)

    bring(app, "a")
    with Running(app) as running:
        assert running.join() is Ending.STUCK
    del running
    gc.collect()
    assert app.store.counts() == {"reading": {"waiting": 1}}, "it waits for its second try"
    assert "HandlerTimeout" in str(state(app, "a").last_error)
