"""An app on a file for each test, and trials of supervised worker processes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from onward.app import App
from onward.settings import Settings
from tests.runtime.processes.trial import Trial


@pytest.fixture
def new_app(tmp_path: Path) -> Iterator[Callable[[], App]]:
    """Makes apps that share one file, as those of several processes do."""
    with ExitStack() as stack:

        def make() -> App:
            app = App(store=f"sqlite:///{tmp_path / 'onward.db'}", settings=Settings())
            stack.callback(app.close)
            return app

        yield make


@pytest.fixture
def app(new_app: Callable[[], App]) -> App:
    return new_app()


@pytest.fixture
def neighbour(new_app: Callable[[], App]) -> App:
    """Another app on the same file."""
    return new_app()


@pytest.fixture
def trial(tmp_path: Path) -> Iterator[Trial]:
    """Supervised worker processes; none of them outlives the test."""
    with ExitStack() as stack:
        yield Trial(tmp_path, stack)
