"""Where blobs are kept follows from ONWARD_BLOBS and ONWARD_STORE."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import psycopg
import pytest

from onward import App
from onward.backend_urls import open_blobs
from onward.blobs.folder import FolderBlobs
from onward.blobs.postgres import PostgresBlobs
from onward.blobs.s3 import S3Blobs
from onward.ledger.store_errors import StoreError
from onward.settings import load_settings
from tests.blobs.places import put_bytes, read_bytes


def test_blobs_are_in_a_folder_below_the_data_folder(tmp_path: Path) -> None:
    blobs = open_blobs(None, tmp_path, "sqlite:///somewhere.db")
    assert isinstance(blobs, FolderBlobs)
    assert blobs.folder == tmp_path / "blobs"


def test_a_fleet_keeps_its_blobs_in_the_database_of_its_store(postgres_store_url: str, tmp_path: Path) -> None:
    app = App(settings=load_settings({"ONWARD_STORE": postgres_store_url, "ONWARD_HOME": str(tmp_path)}))
    assert isinstance(app.blobs, PostgresBlobs)
    digest = put_bytes(app.blobs, b"shared")
    app.blobs.close()
    with closing(psycopg.connect(postgres_store_url.partition("?")[0])) as eye:
        schema = postgres_store_url.rpartition("=")[2]
        found = eye.execute(f"SELECT digest FROM {schema}.blobs".encode()).fetchall()
    assert found == [(digest,)]


def test_a_folder_that_is_named_is_used_even_by_a_fleet(postgres_store_url: str, tmp_path: Path) -> None:
    blobs = open_blobs(str(tmp_path / "shared"), tmp_path, postgres_store_url)
    assert isinstance(blobs, FolderBlobs)
    assert blobs.folder == tmp_path / "shared"


def test_a_database_of_their_own_can_be_named(postgres_url: str, tmp_path: Path) -> None:
    blobs = open_blobs(postgres_url, tmp_path, "sqlite:///somewhere.db")
    assert isinstance(blobs, PostgresBlobs)
    with closing(blobs):
        assert read_bytes(blobs, put_bytes(blobs, b"apart")) == b"apart"


def test_a_bucket_can_be_named(bucket_url: str, tmp_path: Path) -> None:
    settings = load_settings({"ONWARD_BLOBS": bucket_url, "ONWARD_HOME": str(tmp_path)})
    with closing(App(settings=settings)) as app:
        assert isinstance(app.blobs, S3Blobs)
        assert read_bytes(app.blobs, put_bytes(app.blobs, b"in a bucket")) == b"in a bucket"


def test_a_place_that_nobody_knows_is_told_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"'gs'; let ONWARD_BLOBS name a folder"):
        open_blobs("gs://bucket/key", tmp_path)
