"""Forgetting a source leaves nothing of it behind, whenever it is done."""

from __future__ import annotations

from pathlib import Path

import pytest

from onward.pipeline.documents import Chunk, Message
from onward.pipeline.sources import collect_blobs
from tests.support.pipeline_runs import STAGES, Pipeline, mail, mbox

TABLES = ("documents", "bodies", "ledger", "keys", "texts", "vectors", "failed_batches", "status_counts")
MAILS = mbox(mail("1", "How does it work?"), mail("2", "It works.", references=["1"]), mail("9", "Else."))


def _left(pipeline: Pipeline) -> dict[str, int]:
    """How many rows each table has, where it has any."""
    found = {table: pipeline.ask(f"SELECT count(*) FROM {table}")[0][0] for table in TABLES}
    return {table: count for table, count in found.items() if count}


@pytest.mark.parametrize("done", range(len(STAGES) + 1))
def test_after_any_stage_nothing_is_left(pipeline: Pipeline, archive: Path, done: int) -> None:
    archive.write_bytes(MAILS)
    pipeline.submit(archive)
    for stage in STAGES[:done]:
        pipeline.run(stage)
    assert pipeline.forget(archive) > 0
    assert _left(pipeline) == {}
    assert pipeline.blobs() == 0
    assert pipeline.run(within=3600) == 0
    assert _left(pipeline) == {}


def test_a_source_can_be_ingested_again_after_it_was_forgotten(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(MAILS)
    pipeline.ingest(archive)
    content = pipeline.final_state()
    pipeline.forget(archive)
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.final_state() == content
    assert pipeline.status(archive) == "completed"


def test_another_source_with_the_same_content_keeps_all_of_its_own(pipeline: Pipeline, tmp_path: Path) -> None:
    first, second = tmp_path / "first.mbox", tmp_path / "second.mbox"
    for place in (first, second):
        place.write_bytes(MAILS)
        pipeline.ingest(place)
    assert pipeline.blobs() == 1
    pipeline.forget(first)
    pipeline.check_at_rest()
    assert len(pipeline.all(Message)) == 3
    assert pipeline.blobs() == 1
    pipeline.forget(second)
    assert _left(pipeline) == {}
    assert pipeline.blobs() == 0


def test_the_bytes_of_an_unreadable_message_go_too(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(b"This is no mail.\n\n" + MAILS)
    pipeline.ingest(archive)
    pipeline.forget(archive)
    assert _left(pipeline) == {}
    assert pipeline.blobs() == 0


@pytest.mark.parametrize("stage", STAGES)
def test_while_a_handler_is_at_work_its_effects_are_refused(pipeline: Pipeline, archive: Path, stage: str) -> None:
    archive.write_bytes(MAILS)
    pipeline.submit(archive)
    with pipeline.meanwhile(stage, lambda: pipeline.forget(archive)):
        pipeline.run()
    assert pipeline.run(within=3600) == 0
    assert _left(pipeline) == {}


def test_blobs_that_nobody_names_are_collected_after_a_day(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(MAILS)
    pipeline.submit(archive)
    with pipeline.meanwhile("ingestion", lambda: pipeline.forget(archive)):
        pipeline.run()
    assert pipeline.blobs() == 1, "it was put before the commit that was refused"
    assert collect_blobs(pipeline.app) == 0, "it is young: its document may be about to be committed"
    assert collect_blobs(pipeline.app, older_than=-1.0) == 1
    assert pipeline.blobs() == 0


def test_blobs_that_a_document_names_are_kept(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(b"This is no mail.\n\n" + MAILS)
    pipeline.ingest(archive)
    before = pipeline.blobs()
    assert collect_blobs(pipeline.app, older_than=-1.0) == 0
    assert pipeline.blobs() == before


def test_what_is_set_aside_or_given_up_is_forgotten_as_well(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(MAILS)
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "chunking")
    store = pipeline.world.store
    assert store.document_counts()["chunks"] == {"pending": 3}
    assert store.discard("chunks", pipeline.all(Chunk)[0].id)
    pipeline.world.fail("embedder", for_seconds=10)
    pipeline.run(within=5)
    assert store.breakers()
    pipeline.forget(archive)
    assert _left(pipeline) == {}


def test_forgetting_what_nobody_knows_removes_nothing(pipeline: Pipeline, archive: Path, tmp_path: Path) -> None:
    archive.write_bytes(MAILS)
    pipeline.ingest(archive)
    before = _left(pipeline)
    assert pipeline.forget(tmp_path / "other.mbox") == 0
    assert _left(pipeline) == before
