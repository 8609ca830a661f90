from __future__ import annotations

import pytest

from tests.store.library import fill_library
from tests.support.store_pages import Stage


@pytest.fixture
def library(stage: Stage) -> Stage:
    """Three pages that can be found, of two sources, and a word made of each."""
    return fill_library(stage)
