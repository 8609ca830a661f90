"""One archive, three ways to keep it, one result: also with two worker processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from onward.backend_urls import open_store

pytestmark = pytest.mark.prove

ROOT = Path(__file__).parents[3]
ARCHIVE = ROOT / "examples/sample/harbour-list.mbox"
SOME_FAILED = 3
COLLECTIONS = ("archives", "messages", "threads", "chunks", "summaries")
OF_THE_RUN = {"seconds", "submission", "fetched_at", "placeholders"}
"""Fields that tell of a run, not of what came of it."""


def ingested(home: Path, **settings: str) -> dict[str, list[Any]]:
    """Ingest the sample with two worker processes; answer every document with its status."""
    command = [sys.executable, "-m", "onward", "ingest", "--processes", "2", str(ARCHIVE)]
    environment = {**os.environ, "ONWARD_HOME": str(home), **settings}
    done = subprocess.run(command, env=environment, cwd=home.parent, capture_output=True, timeout=280, check=False)
    assert done.returncode == SOME_FAILED, done.stderr.decode()  # the sample holds one bad mail
    store = open_store(settings.get("ONWARD_STORE") or f"sqlite:///{home}/onward.db")
    try:
        found: dict[str, list[Any]] = {}
        for collection in COLLECTIONS:
            states = {one.id: one.status for one in store.states(collection, limit=10_000)}
            for id, _, body in store.read_bodies(collection, list(states)):
                told = {name: value for name, value in json.loads(body).items() if name not in OF_THE_RUN}
                found.setdefault(collection, []).append([id, states[id], told])
        return {collection: sorted(documents, key=repr) for collection, documents in found.items()}
    finally:
        store.close()


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[Any]]:
    return ingested(tmp_path_factory.mktemp("embedded") / "home")


def test_postgresql_comes_to_the_same(tmp_path: Path, embedded: dict[str, list[Any]], postgres_url: str) -> None:
    assert len(embedded["summaries"]) > 1
    assert ingested(tmp_path / "home", ONWARD_STORE=postgres_url) == embedded


def test_rabbitmq_comes_to_the_same(
    tmp_path: Path, embedded: dict[str, list[Any]], postgres_url: str, rabbit_url: str
) -> None:
    assert len(embedded["chunks"]) > 1
    assert ingested(tmp_path / "home", ONWARD_STORE=postgres_url, ONWARD_GATEWAY=rabbit_url) == embedded
