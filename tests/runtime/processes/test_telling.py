"""What is given up without ever being run is told of, too."""

from __future__ import annotations

import logging

import pytest

from onward.app import App
from onward.runtime.outcomes import AnySignal, Finished, GaveUp
from onward.runtime.work import Work
from tests.runtime.processes.stage import Page, PagesFound, bring


def test_a_crash_loop_is_logged_and_observed(app: App, caplog: pytest.LogCaptureFixture) -> None:
    heard: list[AnySignal] = []
    app.observe(heard.append)

    @app.service("reading", on=PagesFound, finishes=Page)
    def read(page: Page, work: Work) -> None:
        raise AssertionError("it has died too often to be run again")

    bring(app, "a")
    for worker in ("first", "second", "third"):
        suspects = worker == "third"
        (delivery,) = app.store.claim(worker, "reading", limit=1, lease=60.0, suspects=suspects)
        app.store.record_crash(worker, [delivery.row])
    with caplog.at_level(logging.ERROR, logger="onward"):
        app.engine(suspects=True).run()
    assert [(one.reason, one.ids) for one in heard if isinstance(one, GaveUp)] == [("crash_loop", ("a",))]
    assert "given up (crash_loop)" in caplog.text


def test_an_observer_may_come_after_the_engine_was_made(app: App) -> None:
    app.service("reading", on=PagesFound, finishes=Page)(lambda page, work: None)
    bring(app, "a")
    engine, heard = app.engine(until_idle=True), list[AnySignal]()
    app.observe(heard.append)
    engine.run()
    assert [one.ids for one in heard if isinstance(one, Finished)] == [("a",)]
