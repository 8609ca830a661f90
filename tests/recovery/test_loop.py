"""The retry job beside the workers: it runs when something is due, survives what fails, and ends when told."""

from __future__ import annotations

import logging
import threading
from collections.abc import Sequence

import pytest

from onward import DocumentState, Reader, Work
from onward.ledger.store_errors import StoreUnavailable
from onward.recovery import background_jobs
from onward.recovery.background_jobs import RetryJobThread
from onward.testing import Simulation
from tests.support.page_app import HOUR, Page, PagesFound, new_app


def test_a_step_does_what_is_due_and_only_that() -> None:
    app = new_app()

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        pass

    with Simulation(app, retry_job=False) as world:
        retrying = RetryJobThread(world.retry_job)
        assert retrying.step()
        world.app.add(Page(id="a"))
        world.clock.advance(HOUR)
        assert retrying.step()
        assert world.store.counts()["reading"] == {"waiting": 1}


@pytest.mark.parametrize("error", (StoreUnavailable("the store is locked"), RuntimeError("a bug of ours")))
def test_what_fails_is_logged_and_ends_nothing(error: Exception, caplog: pytest.LogCaptureFixture) -> None:
    with Simulation(new_app(), retry_job=False) as world:
        retrying = RetryJobThread(world.retry_job)

        def fail() -> bool:
            raise error

        world.retry_job.is_due = fail  # type: ignore[method-assign]
        assert not retrying.step()
        assert str(error) in caplog.text


def test_a_hook_that_hangs_does_not_keep_a_worker_from_ending(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background_jobs, "STOP_SECONDS", 0.01)
    app, hanging, over = new_app(), threading.Event(), threading.Event()

    def requeue(states: Sequence[DocumentState], store: Reader) -> list[PagesFound]:
        hanging.set()
        over.wait(60)
        return []

    @app.service("reading", on=PagesFound, finishes=Page, requeue=requeue)
    def read(page: Page, work: Work) -> None:
        pass

    with Simulation(app, retry_job=False) as world:
        world.app.add(Page(id="a"))
        world.clock.advance(HOUR)
        retrying = RetryJobThread(world.retry_job)
        retrying.start()
        assert hanging.wait(60)
        with caplog.at_level(logging.WARNING):
            retrying.stop()
        assert "does not end" in caplog.text
        over.set()
        retrying._thread.join(60)
        assert not retrying._thread.is_alive()
