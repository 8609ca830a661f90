"""A process whose store a newer Onward upgrades: it stops, and writes nothing into unknown tables."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from onward.backend_urls import open_store
from onward.ledger.sqlite.dialect import SCHEMA_VERSION
from onward.ledger.store_errors import StoreOutdated
from tests.support.store_pages import page


def test_a_file_that_was_upgraded_is_not_written_any_more(tmp_path: Path) -> None:
    file = tmp_path / "onward.db"
    with closing(open_store(f"sqlite:///{file}")) as store:
        store.add_documents([page("before")])
        with closing(sqlite3.connect(file)) as newer:
            newer.execute(f"PRAGMA user_version = {SCHEMA_VERSION + 1}")
        with pytest.raises(StoreOutdated, match=f"schema version {SCHEMA_VERSION + 1} by a newer Onward"):
            store.add_documents([page("after")])
        assert store.document_counts() == {"pages": {"processed": 1}}
