"""Failed batches come back when nothing else is to be done, and under constant load in one of every ten turns."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from onward import Work
from onward.backend_urls import open_store
from onward.model.ledger import BACKGROUND, BACKGROUND_EVERY, OVERDUE, Processed
from onward.testing import Simulation
from tests.support.page_app import HOUR, MINUTE, Page, PagesFound, bring, bring_apart, new_app
from tests.support.store_pages import Clock, Stage, page


@pytest.fixture
def stage() -> Iterator[Stage]:
    clock = Clock()
    store = open_store("sqlite://:memory:", clock)
    yield Stage(store, clock)
    store.close()


# -- at the store


def fill(stage: Stage, *, fresh: int, background: int, documents: int = 1) -> None:
    """Rows in the background, each with so many documents, that are overdue, and fresh ones."""
    for n in range(background):
        ids = [f"old-{n}-{m}" for m in range(documents)]
        stage.store.add_documents([page(id) for id in ids])
        stage.publish(*ids, priority=BACKGROUND)
    stage.clock.advance(OVERDUE)
    stage.store.publish([stage.found(f"new-{n}") for n in range(fresh)])


def turns(stage: Stage, count: int, limit: int, **more: Any) -> list[bool]:
    """Claim and finish so many rows; which of them were from the background?"""
    taken: list[bool] = []
    while len(taken) < count:
        deliveries = stage.claim(limit, **more)
        assert deliveries, "there is always something to do"
        for delivery in deliveries:
            taken.append(delivery.priority == BACKGROUND)
            stage.settle(delivery, Processed(), inputs=[])
    return taken


@pytest.mark.parametrize("limit", (1, 3, 7, 10, 64))
def test_one_of_every_ten_turns_is_theirs_however_many_are_claimed_at_once(stage: Stage, limit: int) -> None:
    fill(stage, fresh=500, background=60)
    taken = turns(stage, 300, limit)
    for start in range(0, 300, BACKGROUND_EVERY):
        assert sum(taken[start : start + BACKGROUND_EVERY]) == 1


def test_nothing_of_theirs_is_taken_before_it_is_overdue_while_there_is_other_work(stage: Stage) -> None:
    stage.bring("old")
    stage.settle(stage.take(), Processed(["old"]))
    stage.store.publish([stage.found(f"old-{n}", priority=BACKGROUND) for n in range(5)])
    stage.store.publish([stage.found(f"new-{n}") for n in range(100)])
    stage.clock.advance(OVERDUE - 1)
    assert turns(stage, 100, 7)[:100] == [False] * 100


def test_they_are_taken_at_once_when_there_is_no_other_work(stage: Stage) -> None:
    stage.store.publish([stage.found(f"old-{n}", priority=BACKGROUND) for n in range(5)])
    assert [one.priority for one in stage.claim(100)] == [BACKGROUND] * 5


def test_large_ones_crowd_nobody_out(stage: Stage) -> None:
    fill(stage, fresh=200, background=8, documents=400)
    taken = turns(stage, 100, 64)
    assert [sum(taken[:n]) <= n // BACKGROUND_EVERY for n in range(100)] == [True] * 100


def test_they_take_no_more_than_their_turns_while_a_dependency_recovers(stage: Stage) -> None:
    """Then only one call is allowed at a time."""
    fill(stage, fresh=100, background=20)
    stage.store.open_breaker("model", "it was down")
    stage.store.close_breaker("model")
    taken = turns(stage, 40, 64, needs=["model"])
    assert [sum(taken[:n]) <= n // BACKGROUND_EVERY for n in range(40)] == [True] * 40


# -- in an app

SOURCES = [f"source {n}" for n in range(20)]
BAD = [f"bad of {source}" for source in SOURCES]


TURN = 4.0
"""Seconds that it takes to read a page."""


class Library:
    """An app that reads page after page. Some were set aside, each in a failed batch of its own."""

    def __init__(self) -> None:
        self.app = new_app()
        self.bad = set(BAD)
        self.read: list[str] = []
        self.brought = 0

        @self.app.service("reading", on=PagesFound, finishes=Page, sets_aside=True)
        def read(found: Page, work: Work) -> None:
            self.read.append(found.id)
            if found.id in self.bad:
                work.set_aside(found, RuntimeError("not today"))

    def set_aside(self, world: Simulation) -> float:
        """When the batches fall due."""
        for source, id in zip(SOURCES, BAD, strict=True):
            bring(world, id, source=source)
        world.drain()
        batches = world.store.failed_batches()
        assert len(batches) == len(SOURCES)
        self.bad.clear()
        self.read.clear()
        return batches[0].retry_after

    def work_under_load(self, world: Simulation, seconds: float) -> list[tuple[float, str]]:
        """Read page after page, while there are always more; when was which one read?"""
        bring_apart(world, *(f"old {n}" for n in range(5)))
        log: list[tuple[float, str]] = []
        ends = world.clock.now() + seconds
        while world.clock.now() < ends:
            bring(world, f"new {self.brought}")
            self.brought += 1
            world._pass()
            log.append((world.clock.now(), self.read[-1]))
            world.clock.advance(TURN)
        assert len(log) == len(self.read), "one at a time"
        return log


@pytest.mark.prove
def test_under_constant_load_due_batches_are_retried_in_their_turns() -> None:
    library = Library()
    with Simulation(library.app) as world:
        due = library.set_aside(world)
        log = library.work_under_load(world, HOUR)
        retried = [at for at, id in log if id in BAD]
        assert due + OVERDUE <= retried[0] <= due + OVERDUE + BACKGROUND_EVERY * TURN, (
            "not before, and not much later"
        )
        assert len(retried) == len(BAD), "each once"
        assert retried[-1] <= due + OVERDUE + BACKGROUND_EVERY * TURN * (len(BAD) + 1)
        assert world.store.failed_batches() == []
        theirs = [id in BAD for _, id in log]
        assert max(sum(theirs[n : n + BACKGROUND_EVERY]) for n in range(len(log))) == 1, (
            "9 of 10 stay with fresh work"
        )


def test_without_load_a_batch_is_retried_as_soon_as_it_is_due() -> None:
    library = Library()
    with Simulation(library.app) as world:
        due = library.set_aside(world)
        world.run_for(due - world.clock.now() - 1.0)
        assert library.read == []
        world.run_for(1.0)
        assert sorted(library.read) == sorted(BAD)
        assert world.store.failed_batches() == []


def test_as_soon_as_the_load_is_over_they_are_retried() -> None:
    library = Library()
    with Simulation(library.app) as world:
        library.set_aside(world)
        assert not {id for _, id in library.work_under_load(world, 5 * MINUTE)} & set(BAD)
        world.drain()
        assert set(library.read[-len(BAD) :]) == set(BAD), "after all else"
