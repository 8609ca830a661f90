from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.pipeline_runs import Pipeline


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path / "home").running() as running:
        yield running


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    """Where a test writes a mail archive."""
    return tmp_path / "list.mbox"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder to be ingested."""
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder
