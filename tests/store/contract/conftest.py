from __future__ import annotations

import pytest

from onward.ledger.store import Store
from tests.store.library import MIXED, PACKED, WAITING, Library, fill_library
from tests.support.store_pages import Clock, Stage


@pytest.fixture
def library(stage: Stage) -> Stage:
    """Three pages that can be found, of two sources, and a word made of each."""
    fill_library(stage)
    return stage


@pytest.fixture(params=[WAITING, PACKED, pytest.param(MIXED, marks=pytest.mark.prove)])
def indexed_library(request: pytest.FixtureRequest, store: Store, clock: Clock) -> Library:
    """The same, with its index waiting, packed or both."""
    library = Library(store, clock, request.param)
    fill_library(library)
    return library
