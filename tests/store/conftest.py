"""Every contract holds on every store: a new backend is one more parameter here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.backends import open_store
from onward.ports import Store
from tests.store.stage import Clock, Stage


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file", "postgres"])
def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Store]:
    match request.param:
        case "memory":
            url = "sqlite://:memory:"
        case "file":
            url = f"sqlite:///{tmp_path / 'onward.db'}"
        case _:
            url = request.getfixturevalue("postgres_store_url")
    store = open_store(url, clock)
    yield store
    store.close()


@pytest.fixture
def stage(store: Store, clock: Clock) -> Stage:
    return Stage(store, clock)
