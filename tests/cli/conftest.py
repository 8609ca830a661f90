"""One store with the sample archive, read by many tests and changed by none."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.pipeline.app import build
from onward.pipeline.sources import submit
from onward.settings import load_settings
from tests.support.command_runs import SAMPLE


@pytest.fixture(scope="session")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder in which the sample archive is ingested."""
    home = tmp_path_factory.mktemp("library")
    app = build(load_settings({"ONWARD_HOME": str(home)}))
    submit(app, str(SAMPLE))
    app.work_until_idle()
    app.close()
    return home


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty data folder."""
    return tmp_path / "home"
