"""A worker of an app that only has schedules publishes their events."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from onward import App, Settings
from onward.runtime.schedules import ScheduleState
from tests.support.supervised_workers import Supervised, until

pytestmark = pytest.mark.prove

CLOCK = """
from datetime import timedelta
from onward import App, Event

class Beat(Event):
    at: str

app = App(store={store!r})
app.schedule("beat", every=timedelta(seconds=1), event=lambda tick: Beat(at=str(tick)))
"""


def test_a_worker_of_an_app_without_services_ticks(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'onward.db'}"
    (tmp_path / "clock_app.py").write_text(CLOCK.format(store=store))
    with closing(App(store=store, settings=Settings())) as app, Supervised("clock_app:app", tmp_path, {}):

        def has_ticked() -> bool:
            state = app.store.get(ScheduleState, "beat")
            return state is not None and state.last_tick is not None

        until(has_ticked, "the first tick")
