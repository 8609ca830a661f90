"""A periodic job that raises is run again soon, by whichever process comes next."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onward import App, Document, Event, Settings, Work, names
from onward.recovery.background_jobs import FAILED_JOB_SECONDS, PeriodicJobs
from onward.testing import Simulation


class Page(Document):
    pass


class PageFound(Event):
    page_id: str = names(Page)


def test_a_job_that_raises_does_not_keep_its_role_for_the_whole_interval() -> None:
    app = App(store="sqlite://:memory:", settings=Settings())

    @app.service("reading", on=PageFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        pass

    runs: list[float] = []

    @app.periodic("count", every=86_400.0)
    def count(stopped: Callable[[], bool]) -> None:
        runs.append(world.clock.now())
        if len(runs) == 1:
            raise ConnectionError("not now")

    with Simulation(app) as world:
        first, second = (PeriodicJobs(lambda: world.store, app.registry, holder=name) for name in ("a", "b"))
        with pytest.raises(ConnectionError):
            first.run_due()
        assert second.run_due() == []
        world.clock.advance(FAILED_JOB_SECONDS)
        assert second.run_due() == ["count"]
        world.clock.advance(86_399.0)
        assert (first.run_due(), second.run_due()) == ([], [])
        world.clock.advance(1.0)
        assert first.run_due() == ["count"]
