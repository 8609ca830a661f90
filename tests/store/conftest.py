"""Every contract holds on every store: a new backend is one more parameter here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.backend_urls import open_store
from onward.ledger.store import Store
from tests.support.store_pages import Clock, Stage

NOT_POOLED = {"test_words.py", "test_index_removal.py", "test_limits.py"}
"""Files whose tests are not repeated through a pooler: they have hundreds, about words and counts."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    left_out = {item for item in items if item.path.name in NOT_POOLED and "pgbouncer" in item.name}
    items[:] = [item for item in items if item not in left_out]
    config.hook.pytest_deselected(items=list(left_out))


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(params=["memory", "file", "postgres", pytest.param("pgbouncer", marks=pytest.mark.prove)])
def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Store]:
    store: Store
    match request.param:
        case "memory":
            store = open_store("sqlite://:memory:", clock)
        case "file":
            store = open_store(f"sqlite:///{tmp_path / 'onward.db'}", clock)
        case "pgbouncer":
            store = open_store(request.getfixturevalue("pooled_store_url"), clock)
        case _:
            store = open_store(request.getfixturevalue("postgres_store_url"), clock)
    yield store
    store.close()


@pytest.fixture
def stage(store: Store, clock: Clock) -> Stage:
    return Stage(store, clock)
