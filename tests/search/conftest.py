from __future__ import annotations

from collections.abc import Iterator

import pytest

from onward.backend_urls import open_store
from onward.ledger.store import Store
from tests.store.library import Library
from tests.support.store_pages import Clock


@pytest.fixture
def library() -> Iterator[Library]:
    """An empty store in memory, in which texts are indexed by hand."""
    clock = Clock()
    store: Store = open_store("sqlite://:memory:", clock)
    yield Library(store, clock)
    store.close()
