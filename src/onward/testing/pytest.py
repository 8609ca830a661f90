"""Fixtures for pytest: `pytest_plugins = ["onward.testing.pytest"]` in the conftest.py at the top of your tests.

The app is that of `--onward-app module:app`, or of a fixture `onward_app` of your own, which has precedence.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.app import App, load_app
from onward.testing.fleet import Fleet
from onward.testing.simulation import Simulation

OPTION = "--onward-app"


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(OPTION, metavar="MODULE:APP", help="The app of the fixtures `simulation` and `fleet`.")
    parser.addini("onward_app", "The same, in a configuration file.")


@pytest.fixture
def onward_app(request: pytest.FixtureRequest) -> App:
    """The app that is tested; override it, or name it by `--onward-app` or the setting `onward_app`."""
    reference = request.config.getoption(OPTION) or request.config.getini("onward_app")
    if not reference:
        raise pytest.UsageError(
            "there is no app for the fixtures of onward.testing.pytest: give --onward-app MODULE:APP, set "
            "onward_app in pytest's configuration, or write a fixture `onward_app` that returns your onward.App"
        )
    return load_app(str(reference))


@pytest.fixture
def simulation(onward_app: App) -> Iterator[Simulation]:
    """The app in memory, on a simulated clock."""
    with Simulation(onward_app) as world:
        yield world


@pytest.fixture
def fleet(onward_app: App) -> Iterator[Fleet]:
    """The app with three workers, in memory, on a simulated clock; `fleet.crash_at_random()` lets them crash."""
    with Fleet(onward_app) as fleet:
        yield fleet
