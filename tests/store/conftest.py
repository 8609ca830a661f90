"""Every contract holds on every store: a new backend is one more parameter here."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.backends import open_store
from onward.ports import Store
from onward.torture.servers import RabbitServer
from tests.store.stage import Clock, Stage
from tests.store.wired import NOT_OVER_A_WIRE, Post, WiredStore, open_post


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture(scope="session")
def post(rabbit_server: RabbitServer) -> Iterator[Post]:
    """A wire for all tests of this process: rows have numbers that never come again."""
    with open_post(rabbit_server.create_vhost("store")) as post:
        yield post


@pytest.fixture(params=["memory", "file", "postgres", "rabbitmq"])
def store(request: pytest.FixtureRequest, clock: Clock, tmp_path: Path) -> Iterator[Store]:
    store: Store
    match request.param:
        case "memory":
            store = open_store("sqlite://:memory:", clock)
        case "file":
            store = open_store(f"sqlite:///{tmp_path / 'onward.db'}", clock)
        case "postgres":
            store = open_store(request.getfixturevalue("postgres_store_url"), clock)
        case _:
            if reason := NOT_OVER_A_WIRE.get(request.function.__name__):
                pytest.skip(reason)
            store = WiredStore(request.getfixturevalue("postgres_store_url"), clock)
            store.post = request.getfixturevalue("post")
    yield store
    store.close()


@pytest.fixture
def stage(store: Store, clock: Clock) -> Stage:
    return Stage(store, clock)
