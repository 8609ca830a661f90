"""Every contract holds on every store: a new backend is one more parameter here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.backend_urls import open_store
from onward.ledger.store import Store
from tests.support.store_pages import Clock, Stage


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file", "postgres"])
def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Store]:
    store: Store
    match request.param:
        case "memory":
            store = open_store("sqlite://:memory:", clock)
        case "file":
            store = open_store(f"sqlite:///{tmp_path / 'onward.db'}", clock)
        case _:
            store = open_store(request.getfixturevalue("postgres_store_url"), clock)
    yield store
    store.close()


@pytest.fixture
def stage(store: Store, clock: Clock) -> Stage:
    return Stage(store, clock)
