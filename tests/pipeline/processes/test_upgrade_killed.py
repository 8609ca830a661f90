"""Killed again and again during the vector upgrade: each chunk gets one vector of the better model."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from signal import SIGKILL
from typing import Any

import numpy as np
import pytest

from onward.backend_urls import open_store
from onward.pipeline.documents import Chunk
from onward.pipeline.stages.vector_upgrade import SERVICE
from tests.support.model_server import Call, ModelServer, vector
from tests.support.pipeline_runs import mail, mbox
from tests.support.supervised_workers import until

pytestmark = pytest.mark.prove

STATIC, BETTER = "static:wordllama-l2-256", "http:better"
MAILS, KILLS = 400, 5
CALLS_BETWEEN_KILLS = 2
"""Of 16, one for each lane. An event that runs at three kills counts as their cause: some calls must be made."""


class SteppedServer(ModelServer):
    """A model that takes some calls and hangs from the next one on, so that a kill finds calls that run."""

    left = 0

    def answer(self, call: Call) -> tuple[int, dict[str, str], bytes]:
        with self._lock:
            self.left -= 1
            if self.left < 0:
                self.hang()
        return super().answer(call)

    def let_pass(self, calls: int) -> None:
        with self._lock:
            self.left = calls
        self.release()

    @property
    def hangs(self) -> bool:
        return not self._flowing.is_set()


@pytest.fixture
def server() -> Iterator[SteppedServer]:
    with SteppedServer() as server:
        yield server


def start(home: Path, *arguments: str, **settings: str) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-m", "onward", *arguments],
        env={**os.environ, "ONWARD_HOME": str(home), **settings},
        cwd=home.parent,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )


def kill(process: subprocess.Popen[bytes]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, SIGKILL)
    process.communicate()


def finish(process: subprocess.Popen[bytes]) -> None:
    try:
        _, errors = process.communicate(timeout=280)
        assert process.returncode == 0, errors.decode()
    finally:
        kill(process)


def ask(home: Path, query: str) -> list[tuple[Any, ...]]:
    with closing(sqlite3.connect(home / "onward.db")) as database:
        return database.execute(query).fetchall()


def vectors(home: Path, model: str) -> dict[str, bytes]:
    query = "SELECT d.id, v.vector FROM vectors v JOIN documents d ON d.doc = v.doc WHERE v.model = "
    return dict(ask(home, f"{query}'{model}'"))


def test_killed_five_times_the_upgrade_gives_each_chunk_its_vector(
    tmp_path: Path, server: SteppedServer, report: Callable[[str], None]
) -> None:
    home, archive = tmp_path / "home", tmp_path / "list.mbox"
    archive.write_bytes(mbox(*(mail(str(n), f"This is mail number {n} of the harbour.") for n in range(MAILS))))
    finish(start(home, "ingest", str(archive), "--json"))
    before = vectors(home, STATIC)
    assert len(before) == MAILS

    better = {
        "ONWARD_EMBEDDER_UPGRADE": server.url,
        "ONWARD_EMBEDDER_UPGRADE_MODEL": "better",
        "ONWARD_CONCURRENCY": "1",
    }
    done = [0]
    for _ in range(KILLS):
        server.let_pass(CALLS_BETWEEN_KILLS)
        process = start(home, "reembed", "--json", "--processes", "1", **better)
        try:
            until(
                lambda: server.hangs and len(vectors(home, BETTER)) > done[-1], "some are made, a call hangs", 120
            )
        finally:
            kill(process)
        done.append(len(vectors(home, BETTER)))
    assert done[-1] < MAILS, "it was killed in the middle"
    server.let_pass(10**6)
    finish(start(home, "reembed", "--json", **better))

    with closing(open_store(f"sqlite:///{home / 'onward.db'}")) as store:
        chunks = store.get_many(Chunk, list(before))
        assert store.vector_counts(Chunk) == {STATIC: MAILS, BETTER: MAILS}
        assert store.ids_without_vector(Chunk, BETTER) == []
    expected = {}
    for chunk in chunks:
        numbers = np.array(vector(chunk.titled_text(1).strip()), np.float64)
        expected[chunk.id] = numbers / np.linalg.norm(numbers)
    found = vectors(home, BETTER)
    assert found.keys() == expected.keys()
    for id, stored in found.items():
        np.testing.assert_allclose(np.frombuffer(stored, "<f4"), expected[id], atol=1e-5)
    assert vectors(home, STATIC) == before
    assert ask(home, "SELECT count(*), count(DISTINCT doc || model) FROM vectors") == [(2 * MAILS, 2 * MAILS)]
    assert ask(home, "SELECT sum(vectors) FROM vector_blocks") == [(2 * MAILS,)], "each has one code"
    assert ask(home, f"SELECT state FROM ledger WHERE service = '{SERVICE}' AND state <> 'done'") == []
    again = len(server.embedded) - MAILS
    report(f"vector upgrade killed {KILLS} times, after {done[1:]} of {MAILS} vectors: {again} were made again")
