"""The stores in which the example programs run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from tests.support.caller_connections import place_of


@pytest.fixture(params=("sqlite", "postgres"))
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """The URL of an empty store. The examples' own tables, which are beside those of Onward, are removed."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'onward.db'}"
        return
    url = str(request.getfixturevalue("postgres_store_url"))
    yield url.replace("postgresql://", "postgres://")  # both are accepted
    with psycopg.connect(place_of(url).conninfo) as connection:
        connection.execute("DROP TABLE IF EXISTS public.users, public.shop_order")
