"""A long backlog and slow workers: whatever waits its turn is neither put back again nor given up."""

from __future__ import annotations

from typing import Any, cast

import pytest

from onward import Work
from onward.ledger.sqlite import SQLiteStore
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.model.events import Envelope
from onward.model.ledger import Delivery, NewDocument, Processed, Settlement
from onward.recovery.retry_job import RetryJobRun
from onward.testing import Simulation
from tests.support.killed_worker import Fragile
from tests.support.page_app import DAY, HOUR, Page, PagesFound, new_app

BACKLOG = 50_000
AN_EVENT = 50
INTERVAL = 900.0


class Watched(Fragile):
    """A database that knows what it was asked."""

    def __init__(self, database: SQLiteDatabase) -> None:
        super().__init__(database)
        self.asked: set[str] = set()

    def read(self, name: str, *parameters: Any) -> Any:
        self.asked.add(name)
        return super().read(name, *parameters)


class Archive:
    """A service with a backlog, and workers that get little done."""

    def __init__(self) -> None:
        self.app = new_app()

        @self.app.service("reading", on=PagesFound, finishes=Page)
        def read(page: Page, work: Work) -> None:
            """The workers of this test settle without it."""

    def fill(self, world: Simulation) -> None:
        ids = [f"page {n}" for n in range(BACKLOG)]
        for start in range(0, BACKLOG, AN_EVENT * 20):
            some = ids[start : start + AN_EVENT * 20]
            with world.store.transaction():
                world.store.add_documents([NewDocument("pages", id, "{}") for id in some])
                for first in range(0, len(some), AN_EVENT):
                    event = PagesFound(page_ids=some[first : first + AN_EVENT])
                    world.store.publish(Envelope.of(event, now=world.clock.now()))

    def claim(self, world: Simulation, limit: int, lease: float) -> list[Delivery]:
        return world.store.claim("slow", "reading", limit=limit, lease=lease)

    def settle(self, world: Simulation, deliveries: list[Delivery]) -> None:
        world.store.settle(
            [
                Settlement(
                    one.row,
                    one.token,
                    "pages",
                    inputs=[(given.id, given.revision) for given in one.inputs],
                    parts=[Processed([given.id for given in one.inputs])],
                )
                for one in deliveries
            ]
        )


@pytest.mark.prove
def test_a_backlog_that_moves_slowly_for_more_than_a_day_is_left_alone() -> None:
    archive, runs = Archive(), list[RetryJobRun]()
    with Simulation(archive.app, retry_job=False) as world:
        archive.fill(world)
        store = cast(SQLiteStore, world.store)
        watched = Watched(store.db)
        store.db = cast(SQLiteDatabase, watched)
        running = archive.claim(world, 3, 2 * DAY)  # by handlers that take longer than all of this
        assert len(running) == 3
        ends = world.clock.now() + 26 * HOUR
        while world.clock.now() < ends:
            archive.settle(world, archive.claim(world, 1, 60.0))
            world.clock.advance(INTERVAL)
            assert world.store.due_for_check(limit=1) == []
            watched.asked.clear()
            runs.append(world.retry_job.run())
            assert watched.asked, "it was at work"
            assert not watched.asked & {"states_by_id", "documents", "rows"}, "nothing of the backlog is read"
        assert len(runs) == 26 * HOUR / INTERVAL
        assert [run for run in runs if run.touched or run.later or run.held_up or run.problems] == []
        done = len(runs) * AN_EVENT
        assert world.store.document_counts() == {"pages": {"processed": done, "pending": BACKLOG - done}}
        live = BACKLOG // AN_EVENT - len(runs)
        assert world.store.counts()["reading"] == {"done": len(runs), "claimed": 3, "waiting": live - 3}
        totals = world.store.totals()
        assert "retry_job_documents_requeued_total" not in totals
        assert "retry_job_documents_max_retries_exceeded_total" not in totals
        assert totals["retry_job_runs_total"] == {"success": len(runs)}
        assert totals["retry_job_stuck_documents"] == {"pages": 0}, "it is a backlog, and it moves"
        rounds = {(one.attempt_count, one.round) for one in world.store.states(Page)}
        assert rounds == {(1, 1)}
        archive.settle(world, running)
        assert world.store.document_counts()["pages"]["processed"] == done + 3 * AN_EVENT, "those count, too"
