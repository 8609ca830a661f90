"""Stores on PostgreSQL that are closed at the end of a test, and ways to let two of their callers meet."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest

from onward.ledger.postgres import PostgresStore
from tests.postgres.stage import Asker, Meeting, Opener
from tests.support.servers import PostgresServer
from tests.support.store_pages import Clock, Stage


@pytest.fixture
def opened() -> Iterator[Opener]:
    """Opens stores: `store = opened(url)`, or with a clock of one's own."""
    stores: list[PostgresStore] = []

    def open_store(url: str, clock: Clock | None = None, *, patience: float = 60.0) -> PostgresStore:
        stores.append(PostgresStore(url, clock, patience=patience))
        return stores[-1]

    yield open_store
    for store in stores:
        store.close()


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(opened: Opener, postgres_store_url: str, clock: Clock) -> PostgresStore:
    return opened(postgres_store_url, clock)


@pytest.fixture
def stage(store: PostgresStore, clock: Clock) -> Stage:
    return Stage(store, clock)


@pytest.fixture
def ask(postgres_server: PostgresServer) -> Iterator[Asker]:
    """Asks the server, as its owner, what the store would not tell: `ask("SELECT 1")`."""
    with psycopg.connect(postgres_server.url(), autocommit=True) as connection:
        yield lambda query: connection.execute(query.encode()).fetchall()


@pytest.fixture
def meeting(store: PostgresStore, ask: Asker) -> Meeting:
    """Lets two callers of the store meet: `one, two = meeting(first, second)`."""
    return Meeting(store, ask)
