"""`onward schedules` lists when each schedule ran last, and when it runs next."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path

import pytest

from onward import App
from onward.runtime.schedules import Ticker
from onward.settings import load_settings
from onward.testing import SimulatedClock
from tests.support.command_runs import onward


@pytest.fixture(params=["sqlite", "postgres"])
def more(request: pytest.FixtureRequest) -> dict[str, str]:
    """The settings of a store, on each backend."""
    return {} if request.param == "sqlite" else {"ONWARD_STORE": request.getfixturevalue("postgres_url")}


def test_the_last_and_the_next_tick_are_listed(home: Path, more: dict[str, str]) -> None:
    clock = SimulatedClock(datetime(2026, 3, 28, 12, tzinfo=UTC).timestamp())
    app = App(settings=load_settings({"ONWARD_HOME": str(home), **more}), clock=clock)

    @app.task(schedule="0 7 * * *", timezone="Europe/Berlin", missed="all")
    def report() -> None:
        pass

    ticker = Ticker(lambda: app.store, app.registry)
    ticker.run_due()
    clock.advance(86_400)
    ticker.run_due()
    app.close()
    result = onward(home, "schedules", "--json", more=more)
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["schedules"] == [
        {
            "schedule": "report",
            "runs": "0 7 * * *",
            "timezone": "Europe/Berlin",
            "missed": "all",
            "last_tick": "2026-03-29T05:00:00Z",
            "next_tick": "2026-03-30T05:00:00Z",
            "late": True,
        }
    ], "it is late: by now that tick has passed"
    shown = onward(home, "schedules", more={**more, "COLUMNS": "80"}).stdout
    assert "report: runs 0 7 * * *, time zone Europe/Berlin" in shown.replace("\n", " "), "80 columns are too few"
    chosen = ("--collection", "onward_schedules", "--status", "processed", "--title", "report")
    assert onward(home, "documents", "purge", *chosen, "--confirm", more=more).exit_code == 0
    assert json.loads(onward(home, "schedules", "--json", more=more).stdout) == {"schedules": []}
