"""Consoles for tests: one with the sample archive, which nobody changes, and one with nothing in it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.pipeline.sources import submit
from tests.support.command_runs import SAMPLE
from tests.support.console_client import Site, pipeline, serving


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A console of the sample archive."""
    app = pipeline(tmp_path_factory.mktemp("library"), ONWARD_SERVE_REQUESTS_PER_SECOND="10000")
    submit(app, str(SAMPLE))
    app.work_until_idle()
    with serving(app) as site:
        yield site
    app.close()


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    """A console of an empty store, whose services run when `site.app.work_until_idle()` says so."""
    app = pipeline(tmp_path / "home", ONWARD_SERVE_REQUESTS_PER_SECOND="10000")
    with serving(app) as site:
        yield site
    app.close()
