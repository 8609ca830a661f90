"""The three places where blobs are kept."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from onward.blobs import Blobs
from tests.blobs.places import FolderPlace, ObjectPlace, Place, PostgresPlace
from tests.support.servers import ObjectServer


@pytest.fixture
def in_folder(tmp_path: Path) -> FolderPlace:
    return FolderPlace(tmp_path / "blobs")


@pytest.fixture
def in_postgres(postgres_store_url: str, tmp_path: Path) -> Iterator[PostgresPlace]:
    with closing(PostgresPlace(postgres_store_url, tmp_path / "scratch")) as place:
        yield place


@pytest.fixture
def in_bucket(object_server: ObjectServer, bucket_url: str, tmp_path: Path) -> Iterator[ObjectPlace]:
    with closing(ObjectPlace(object_server, bucket_url, tmp_path / "scratch")) as place:
        yield place


@pytest.fixture(params=["in_folder", "in_postgres", pytest.param("in_bucket", marks=pytest.mark.prove)])
def place(request: pytest.FixtureRequest) -> Place:
    found: Place = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def blobs(place: Place) -> Blobs:
    return place.blobs
