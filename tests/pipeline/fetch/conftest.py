from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.web_server import Site, serve


@pytest.fixture
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for temporary files, outside of what is taken."""
    return tmp_path_factory.mktemp("scratch")


@pytest.fixture
def site() -> Iterator[Site]:
    """A web server, empty at first."""
    with serve() as site:
        yield site
