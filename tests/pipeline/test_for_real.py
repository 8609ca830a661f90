"""The same with real threads on a real clock: a worker's engine, in this process, until nothing is left to do."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from onward import App, Work
from onward.pipeline.app import build
from onward.pipeline.documents import Chunk
from onward.pipeline.search import Query, search
from onward.pipeline.sources import forget, message_counts, source_status, submit
from onward.pipeline.vector_upgrade import check_upgrade, read_upgrade
from onward.settings import load_settings
from tests.support.model_server import ModelServer
from tests.support.pipeline_runs import STAGES, mail, mbox
from tests.support.small_models import write_onnx_model

pytestmark = pytest.mark.prove

MAILS = [
    mail(str(n), f"This is mail number {n}.", references=[str(n - n % 5)] if n % 5 else ()) for n in range(300)
]


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def app(tmp_path: Path, server: ModelServer) -> Iterator[App]:
    given = {
        "ONWARD_HOME": str(tmp_path / "home"),
        "ONWARD_EMBEDDER": server.url,
        "ONWARD_EMBEDDER_MODEL": "small",
    }
    app = build(load_settings(given))
    yield app
    app.close()


def test_an_archive_goes_through_all_stages(app: App, archive: Path) -> None:
    archive.write_bytes(mbox(*MAILS))
    source = submit(app, str(archive)).source
    app.work_until_idle()
    found = source_status(app, source)
    assert found.status == "completed"
    assert (found.count("messages"), found.count("chunks"), found.count("threads")) == (300, 300, 60)
    assert found.count("summaries") == 60
    assert message_counts(app, source)["parsed"] == 300


def test_stage_by_stage_it_comes_to_the_same(app: App, archive: Path) -> None:
    archive.write_bytes(mbox(*MAILS[:20]))
    source = submit(app, str(archive)).source
    for stage in STAGES:
        assert source_status(app, source).status == "running"
        app.work_until_idle([stage])
    assert source_status(app, source).status == "completed"


def test_two_versions_of_an_archive_at_once_end_as_the_newer_one(app: App, archive: Path) -> None:
    archive.write_bytes(mbox(*MAILS))
    submit(app, str(archive))
    app.work_until_idle(["ingestion"])
    archive.write_bytes(mbox(*MAILS[100:]))
    source = submit(app, str(archive)).source
    app.work_until_idle()
    found = source_status(app, source)
    assert (found.count("messages"), found.count("chunks"), found.count("summaries")) == (200, 200, 40)
    assert found.status == "completed"


@pytest.mark.parametrize("stage", ("ingestion", "parsing", "embedding"))
def test_a_source_is_forgotten_while_a_handler_is_busy_with_it(app: App, archive: Path, stage: str) -> None:
    archive.write_bytes(mbox(*MAILS[:20]))
    source = submit(app, str(archive)).source
    services = app.registry.services
    real, busy, forgotten = services[stage], threading.Event(), threading.Event()

    def handle(given: object, work: Work) -> None:
        busy.set()
        assert forgotten.wait(60)
        real.handler(given, work)

    services[stage] = replace(real, handler=handle)
    worker = threading.Thread(target=app.work_until_idle)
    worker.start()
    assert busy.wait(60)
    assert forget(app, str(archive)) > 0
    forgotten.set()
    worker.join(60)
    assert not worker.is_alive()
    assert app.store.document_counts() == {}
    assert app.store.counts() == {}
    services[stage] = real
    submit(app, str(archive))
    app.work_until_idle()
    assert source_status(app, source).status == "completed"
    assert source_status(app, source).count("messages") == 20


def test_a_message_that_the_server_refuses_is_alone(app: App, archive: Path, server: ModelServer) -> None:
    server.poison = "number 13."
    archive.write_bytes(mbox(*MAILS[:30]))
    source = submit(app, str(archive)).source
    app.work_until_idle()
    found = source_status(app, source)
    assert (found.count("chunks", "processed"), found.count("chunks", "failed")) == (29, 1)
    assert found.status == "partially_completed"
    assert found.count("summaries") == 6


@pytest.mark.parametrize("backend", ("sqlite", "postgres"))
def test_chunks_are_upgraded_by_threads_while_others_are_ingested(
    tmp_path: Path, archive: Path, backend: str, request: pytest.FixtureRequest
) -> None:
    given = {
        "ONWARD_HOME": str(tmp_path / "home"),
        "ONWARD_EMBEDDER_UPGRADE": f"local:{write_onnx_model(tmp_path / 'model')}",
    }
    if backend == "postgres":
        given["ONWARD_STORE"] = request.getfixturevalue("postgres_store_url")
    app = build(load_settings(given))
    for count in (100, 300):
        archive.write_bytes(mbox(*MAILS[:count]))
        submit(app, str(archive))
        check_upgrade(app)
        app.work_until_idle()
    check_upgrade(app)
    app.work_until_idle()
    progress = read_upgrade(app)
    assert progress is not None
    assert (progress.vectors, progress.chunks, progress.used) == (300, 300, True)
    assert app.store.ids_without_vector(Chunk, progress.model) == []
    assert app.store.dead_letters() == []
    assert search(app, Query("mail number 7")).note == ""
    app.close()
