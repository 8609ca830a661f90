"""Checkpoints: a large handler commits what it has so far, and a redelivery goes on from there."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from onward import Status, Work
from onward.runtime.handler_call import open_delivery
from onward.runtime.work import WorkRefused
from onward.testing import Simulation
from tests.support.killed_worker import crashing
from tests.support.page_app import Page, PagesFound, Word, bring, how_many, new_app, statuses


def test_a_handler_that_fails_goes_on_from_its_checkpoint() -> None:
    app, cursors = new_app(), list[int | None]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        cursors.append(work.cursor)
        for n in range(work.cursor or 0, 4):
            work.add(Word(id=f"{page.id}{n}"))
            work.checkpoint(n + 1)
            if n == 1 and work.try_number == 1:
                work.add(Word(id="lost"))
                raise ConnectionError

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        assert how_many(world, Word) == 2, "what was checkpointed is kept"
        world.run_for(60)
        assert cursors == [None, 2]
        assert how_many(world, Word) == 4
        assert statuses(world, "a") == {"a": Status.PROCESSED}


def test_each_document_of_an_event_has_a_cursor_of_its_own() -> None:
    app, began = new_app(), list[tuple[str, int | None]]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        began.append((page.id, work.cursor))
        if work.cursor is None:
            work.checkpoint({"a": 1, "b": 2}[page.id])
            raise ConnectionError

    with Simulation(app) as world:
        bring(world, "a", "b")
        world.run_for(60)
        assert began[:2] == [("a", None), ("b", None)]
        assert sorted(began[2:]) == [("a", 1), ("b", 2)]


def test_a_batchs_cursor_is_of_no_use_to_its_halves() -> None:
    app, began = new_app(), list[tuple[list[str], int | None]]()

    @app.service("reading", on=PagesFound, finishes=Page, batch=4)
    def read(batch: Sequence[Page], work: Work) -> None:
        began.append(([page.id for page in batch], work.cursor))
        if len(batch) > 2:
            work.checkpoint(1)
            raise ConnectionError

    with Simulation(app) as world:
        bring(world, *"abcd")
        world.run_for(60)
        assert began == [(["a", "b", "c", "d"], None), (["a", "b"], None), (["c", "d"], None)]


def test_a_crash_after_a_checkpoint_loses_nothing_before_it() -> None:
    app, cursors = new_app(), list[int | None]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        cursors.append(work.cursor)
        work.add(Word(id=f"{work.cursor}"))
        if work.cursor is None:
            work.checkpoint(1)
            fragile.crash_after(0)
            work.add(Word(id="lost"))

    with Simulation(app) as world:
        fragile = crashing(world)
        (page,) = bring(world, "a")
        assert fragile.crashes(world.drain)
        world.run_for(120)
        assert cursors == [None, 1]
        assert how_many(world, Word) == 2
        state = world.state(page)
        assert (state.status, state.attempt_count) == (Status.PROCESSED, 1), "a crash is no failed try"


def test_a_handler_whose_delivery_was_taken_over_learns_it_at_its_next_checkpoint() -> None:
    app, reached = new_app(), list[str]()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        if not reached:
            reached.append("began")
            world.store.release("simulation")
            work.checkpoint(1)
            reached.append("this handler is nobody's any more")

    with Simulation(app) as world:
        (page,) = bring(world, "a")
        world.drain()
        assert reached == ["began"]
        assert world.status(page) == Status.PROCESSED, "by whoever took it over"
        assert world.state(page).last_error is None


def test_an_async_handler_awaits_its_checkpoint() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        work.add(Word(id="one"))
        await work.checkpoint(1)
        assert not work.added(Word), "it is written, and a new work begins"
        work.add(Word(id="two"))

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        assert how_many(world, Word) == 2


def test_forgetting_to_await_it_is_a_clear_failure() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    async def read(page: Page, work: Work) -> None:
        work.checkpoint(1)

    with Simulation(app) as world:
        bring(world, "a")
        world.drain()
        (letter,) = world.dead_letters()
        assert letter.last_error == (
            "service 'reading', document pages/a: a checkpoint was not awaited; write `await work.checkpoint(...)`"
        )


def test_a_call_whose_time_was_up_commits_nothing_more() -> None:
    """Its thread cannot be stopped, and the other calls of its delivery may still be under way."""
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        """It is not run here."""

    with Simulation(app) as world:
        bring(world, "a", "b")
        (delivery,) = world.store.claim("anna", "reading", limit=1, lease=60.0)
        call, _ = open_delivery(app.registry.services["reading"], delivery, world._context).calls
        engine = app.engine(worker="anna")
        engine._abandon(call)
        engine.commit_now()
        assert [one.id for one in call.inputs] == ["a"], "whatever it says is checked against them"
        assert call.inputs[0].body is None
        engine.close()
        with pytest.raises(WorkRefused, match="time limit was up"):
            call._commit(call.opened.settlement((), closes=False))
        assert not engine.finished
