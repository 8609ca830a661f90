"""What holds on every store: its URL, and an app on it that real engines work on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward import App, Settings


@pytest.fixture(params=("sqlite", "postgres"))
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """The URL of an empty store."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'onward.db'}"
    return str(request.getfixturevalue("postgres_store_url"))


@pytest.fixture
def app(store_url: str) -> Iterator[App]:
    app = App(store=store_url, settings=Settings())
    yield app
    app.close()
