"""Chunks get their vectors from a server that fails in all the ways servers do, and nothing is lost."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.model.documents import DocumentState
from onward.model.failures import outcomes
from onward.pipeline.app import build
from onward.pipeline.documents import Chunk, Summary
from onward.pipeline.search import Query, search
from onward.pipeline.sources import reembed
from onward.settings import load_settings
from tests.support.model_server import ModelServer
from tests.support.pipeline_runs import Pipeline, mail, mbox
from tests.support.small_models import write_onnx_model

HOUR = 3600.0


@pytest.fixture
def server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def pipeline(tmp_path: Path, server: ModelServer) -> Iterator[Pipeline]:
    settings = {"ONWARD_EMBEDDER": server.url, "ONWARD_EMBEDDER_MODEL": "small", "ONWARD_EMBEDDER_BATCH": "16"}
    with Pipeline(tmp_path / "home", **settings).running() as running:
        yield running


def _mails(count: int, poison: int | None = None) -> bytes:
    return mbox(
        *(
            mail(str(n), f"This is mail number {n}." + (" It is arsenic." if n == poison else ""))
            for n in range(count)
        )
    )


def _chunks(pipeline: Pipeline, status: str) -> list[DocumentState]:
    return pipeline.world.store.states(Chunk, status=status, limit=1000)


def test_a_text_that_the_server_refuses_fails_alone_with_the_servers_own_words(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    server.poison = "arsenic"
    archive.write_bytes(_mails(20, poison=7))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert len(_chunks(pipeline, "processed")) == 19
    (failed,) = _chunks(pipeline, "failed")
    assert failed.last_error is not None
    assert "cannot be tokenized: arsenic" in failed.last_error["message"]
    (letter,) = pipeline.world.dead_letters("embedding")
    assert letter.documents == (("chunks", failed.id),)
    assert pipeline.world.store.failed_batches() == []


def test_what_fails_every_try_is_set_aside_and_is_no_dead_letter(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    archive.write_bytes(_mails(2))
    server.fail_share = 1.0  # it is up, says its health call, but two texts it never embeds
    pipeline.submit(archive)
    pipeline.run(within=HOUR)
    assert pipeline.world.dead_letters("embedding") == []
    (batch,) = pipeline.world.store.failed_batches(pipeline.source(archive))
    aside = _chunks(pipeline, "pending")
    assert sorted(batch.items) == sorted(("chunks", one.id) for one in aside)
    for one in aside:
        assert one.failed_batch == batch.id
        assert one.last_error is not None
        assert "The server had an error" in one.last_error["message"]
    assert "The server had an error" in batch.errors[-1]["error"]
    assert pipeline.status(archive) == "partially_completed"
    assert [one.missing for one in pipeline.all(Summary)] == [1, 1]
    assert batch.retry_count >= 4, "in an hour it was retried after 1, 5, 10 and 20 minutes"
    server.fail_share = 0.0
    pipeline.run(within=HOUR)
    pipeline.check_at_rest()
    assert pipeline.world.store.failed_batches() == []
    assert pipeline.status(archive) == "completed"
    assert [one.missing for one in pipeline.all(Summary)] == [0, 0]


@pytest.mark.prove
def test_an_outage_burns_nothing(pipeline: Pipeline, server: ModelServer, archive: Path) -> None:
    archive.write_bytes(_mails(40))
    server.down()
    pipeline.submit(archive)
    pipeline.run(within=6 * HOUR)
    assert len(_chunks(pipeline, "pending")) == 40
    assert {one.failed_batch for one in _chunks(pipeline, "pending")} == {None}
    (breaker,) = pipeline.world.store.breakers()
    assert breaker.open
    server.up()
    pipeline.run(within=HOUR)
    pipeline.check_at_rest()
    finished = _chunks(pipeline, "processed")
    assert len(finished) == 40
    assert {one.attempt_count for one in finished} == {1}
    kept = {one["outcome"] for state in finished for one in outcomes(state.attempts)}
    assert kept <= {"processed", "given_back"}, "no try was charged"


def test_a_bad_day_of_a_server_costs_only_the_poison(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    server.poison = "arsenic"
    server.fail_share = 0.3
    server.limited = 2
    archive.write_bytes(_mails(60, poison=33))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "chunking")
    for _ in range(4):
        pipeline.step("embedding")
    server.down()
    charged = pipeline.ask("SELECT sum(tries) FROM ledger WHERE service = 'embedding'")
    pipeline.run(within=HOUR)
    assert pipeline.ask("SELECT sum(tries) FROM ledger WHERE service = 'embedding'") <= charged
    server.up()
    pipeline.run(within=24 * HOUR)
    pipeline.check_at_rest()  # what failed three times by bad luck was retried with its batch
    assert len(_chunks(pipeline, "processed")) == 59
    (failed,) = _chunks(pipeline, "failed")
    assert failed.last_error is not None
    assert "cannot be tokenized: arsenic" in failed.last_error["message"]
    assert sum("arsenic" in text for text in server.embedded) == 0
    assert len(pipeline.all(Summary)) == 60
    assert pipeline.world.store.failed_batches() == []


def test_vectors_of_two_models_never_mix(pipeline: Pipeline, server: ModelServer, archive: Path) -> None:
    archive.write_bytes(_mails(5))
    pipeline.ingest(archive)
    assert pipeline.ask("SELECT DISTINCT model FROM vectors") == [("http:small",)]
    with _other_model(pipeline, server):
        found = search(pipeline.app, Query("number"))
        assert found.total == 5
        assert {hit.similarity for hit in found.hits} == {0.0}, "the vectors of another model say nothing"
        assert reembed(pipeline.app) == 5
        pipeline.run()
        pipeline.check_at_rest()
        counts = pipeline.ask("SELECT model, count(*) FROM vectors GROUP BY model ORDER BY model")
        assert counts == [("http:large", 5), ("http:small", 5)], "a chunk has a vector of each model"
        assert reembed(pipeline.app) == 0
        found = search(pipeline.app, Query("This is mail number 3."))
        assert max(hit.similarity for hit in found.hits) > 0


def test_embedding_anew_leaves_messages_and_summaries_alone(
    pipeline: Pipeline, server: ModelServer, archive: Path
) -> None:
    archive.write_bytes(_mails(5))
    pipeline.ingest(archive)
    before = pipeline.times("messages", "threads", "summaries")
    pipeline.world.clock.advance(HOUR)
    with _other_model(pipeline, server):
        reembed(pipeline.app)
        pipeline.run()
    assert pipeline.times("messages", "threads", "summaries") == before


class _other_model:
    """The app is started again with another embedding model."""

    def __init__(self, pipeline: Pipeline, server: ModelServer) -> None:
        self.pipeline = pipeline
        given = {"ONWARD_EMBEDDER": server.url, "ONWARD_EMBEDDER_MODEL": "large"}
        self.other = build(load_settings({"ONWARD_HOME": str(pipeline.home)} | given)).embedder

    def __enter__(self) -> None:
        self.before = self.pipeline.app.embedder
        self.pipeline.app._opened["embedder"] = self.other

    def __exit__(self, *_: object) -> None:
        self.pipeline.app._opened["embedder"] = self.before
        self.other.close()


def test_a_local_model_embeds_chunks_and_queries_each_with_their_prompt(tmp_path: Path, archive: Path) -> None:
    folder = write_onnx_model(tmp_path / "model", prompts={"query": "query : ", "document": "passage : "})
    with Pipeline(tmp_path / "home", ONWARD_EMBEDDER=f"local:{folder}").running() as pipeline:
        embedder = pipeline.app.embedder
        archive.write_bytes(mbox(mail("1", "The ship is in the harbour."), mail("2", "The key of the door.")))
        pipeline.ingest(archive)
        pipeline.check_at_rest()
        assert pipeline.ask("SELECT DISTINCT model FROM vectors") == [(embedder.model,)]
        chunks = {chunk.message_id: chunk for chunk in pipeline.all(Chunk)}
        (query,) = embedder.embed(["harbour"], query=True)
        hits = search(pipeline.app, Query("harbour")).hits
        for hit in hits:
            (document,) = embedder.embed([chunks[hit.message.id].titled_text(1)])
            assert hit.similarity == pytest.approx(max(0.0, float(query @ document)), abs=1e-6)
        assert hits
