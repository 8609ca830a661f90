"""Stopping an engine: once drains it, twice gives everything back; neither burns anything."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from onward.app import App
from onward.runtime import outcomes
from onward.runtime.engine import Ending
from onward.runtime.work import Work
from tests.runtime.processes.stage import Noticed, Observed, Page, PagesFound, Running, Word, bring, came, state
from tests.support.supervised_workers import until


def untouched(app: App, *ids: str) -> bool:
    """Whether nothing was charged to these pages, and their events wait to be run as if for the first time."""
    claimed = app.store.claim("somebody else", "reading", limit=100, lease=60)
    app.store.release("somebody else")
    named = sorted(one.id for delivery in claimed for one in delivery.inputs)
    charged = [one for one in claimed if one.tries or one.deaths or one.careful]
    return named == sorted(ids) and not charged and all(state(app, id).attempt_count == 1 for id in ids)


def test_a_stop_finishes_what_runs_and_gives_back_what_waits(app: App) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
    def read(page: Page, work: Work) -> None:
        begun.set()
        came(go_on)

    bring(app, "a", "b", "c")
    with Running(app) as running:
        assert came(begun)
        running.engine.drain()
        until(lambda: app.store.counts() == {"reading": {"claimed": 1, "waiting": 2}}, "two are given back")
        go_on.set()
        assert running.join() is Ending.DRAINED
    assert state(app, "a").status == "processed"
    assert untouched(app, "b", "c")


def test_a_second_stop_cancels_async_handlers_and_charges_nothing(app: App) -> None:
    observed, begun, cleaned_up = Observed(app), threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)  # cleaning up may take its time
            cleaned_up.set()

    bring(app, "a", "b")
    with Running(app) as running:
        assert came(begun)
        running.engine.drain()
        running.engine.release()
        assert running.join() is Ending.RELEASED
    assert cleaned_up.is_set()
    assert observed.of(outcomes.Retried) == []
    assert untouched(app, "a", "b")


def test_a_second_stop_does_not_wait_for_threads(app: App) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
    def read(page: Page, work: Work) -> None:
        begun.set()
        came(go_on)
        work.add(Word(id=page.id))

    bring(app, "a", "b")
    with Running(app) as running:
        assert came(begun)
        running.engine.drain()
        running.engine.release()
        assert running.join() is Ending.RELEASED
        assert untouched(app, "a", "b")
        go_on.set()
    assert app.get(Word, "a") is None, "what a released handler still says is not written"


def test_two_stops_at_once_begin_nothing_more(app: App) -> None:
    begun, go_on, calls = threading.Event(), threading.Event(), []

    @app.service("reading", on=PagesFound, finishes=Page, concurrency=1)
    def read(page: Page, work: Work) -> None:
        calls.append(page.id)
        begun.set()
        came(go_on)

    bring(app, *"abcdef")
    with Running(app) as running:
        assert came(begun)
        running.engine.release()
        assert running.join() is Ending.RELEASED
        go_on.set()
    assert calls == ["a"]


def test_a_handler_at_a_checkpoint_learns_that_it_was_released(app: App) -> None:
    begun, go_on, over, outcome = threading.Event(), threading.Event(), threading.Event(), []

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        begun.set()
        came(go_on)
        try:
            work.checkpoint(1)
        except BaseException as error:
            outcome.append(type(error).__name__)
            raise
        finally:
            over.set()

    bring(app, "a")
    with Running(app) as running:
        assert came(begun)
        running.engine.release()
        running.join()
        go_on.set()
        assert came(over)
    assert outcome == ["WorkRefused"]


def test_draining_twice_is_still_draining(app: App) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        begun.set()
        await asyncio.to_thread(came, go_on)

    bring(app, "a")
    with Running(app) as running:
        assert came(begun)
        running.engine.drain()
        running.engine.drain()
        go_on.set()
        assert running.join() is Ending.DRAINED
    assert state(app, "a").status == "processed"


def test_a_thread_that_a_handler_left_behind_does_not_keep_the_engine(app: App) -> None:
    begun, never = threading.Event(), threading.Event()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        begun.set()
        await asyncio.to_thread(never.wait)

    bring(app, "a")
    with Running(app) as running:
        assert came(begun)
        running.engine.release()
        assert running.join() is Ending.RELEASED
    never.set()
    assert untouched(app, "a")


def test_a_task_that_a_handler_left_behind_is_cancelled_in_the_end(app: App) -> None:
    cancelled, tasks = threading.Event(), []

    async def linger() -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        tasks.append(asyncio.create_task(linger()))

    bring(app, "a")
    assert app.work_until_idle() is Ending.DRAINED
    assert cancelled.is_set()


def test_what_was_given_back_is_finished_by_another_worker(app: App, new_app: Callable[[], App]) -> None:
    begun, go_on = threading.Event(), threading.Event()

    @app.service("noticing", on=Noticed, concurrency=1)
    def notice(event: Noticed, work: Work) -> None:
        begun.set()
        came(go_on)
        work.add(Word(id=event.what, text="by the first"))

    app.publish(*(Noticed(what=what) for what in "abc"))
    with Running(app) as running:
        assert came(begun)
        running.engine.release()
        running.join()
        second = new_app()

        @second.service("noticing", on=Noticed)
        def notice_again(event: Noticed, work: Work) -> None:
            work.add(Word(id=event.what, text="by the second"))

        second.work_until_idle()
        go_on.set()
    words = second.store.get_many(Word, list("abc"))
    assert [one.text for one in words] == ["by the second"] * 3


def test_stopping_before_running_runs_nothing(app: App) -> None:
    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise AssertionError("not to be run")

    bring(app, "a")
    engine = app.engine()
    engine.drain()
    assert engine.run() is Ending.DRAINED
    assert untouched(app, "a")


def test_what_waits_for_a_person_keeps_nobody_at_work_until_all_is_idle(app: App) -> None:
    handled: list[str] = []

    @app.service("reading", on=PagesFound, finishes=Page, needs="model")
    async def read(page: Page, work: Work) -> None:
        handled.append(page.id)

    @app.service("noticing", on=Noticed)
    async def notice(event: Noticed, work: Work) -> None:
        handled.append("noticed")

    app.store.open_breaker("model", "it is being moved", by_hand=True)
    bring(app, "a")
    app.publish(Noticed(what="something"))
    with Running(app, until_idle=True) as running:
        assert running.join() is Ending.DRAINED
    assert handled == ["noticed"]
    assert untouched(app, "a")
    app.store.close_breaker("model")
    app.work_until_idle()
    assert handled == ["noticed", "a"]
