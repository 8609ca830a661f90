"""What users of other document systems report, and that it does not happen here.

`docs/reference/reported-elsewhere.md` lists these tests, with those that are beside their subject.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from onward import Permanent
from onward.ops.actions.action import ActionProgress, Actor
from onward.ops.actions.document_retries import RetryDocuments
from onward.pipeline.documents import Message
from onward.pipeline.read.message_reader import read_message
from onward.pipeline.stages import archive_changes
from tests.support.pipeline_runs import Pipeline, mail, mbox
from tests.support.shelves import Shelf, shelf_for

HOUR, DAY = 3600.0, 86_400.0


@pytest.fixture
def shelf(monkeypatch: pytest.MonkeyPatch) -> Shelf:
    return shelf_for(monkeypatch)


def test_what_waits_its_turn_for_days_does_not_fail(pipeline: Pipeline, archive: Path) -> None:
    """Elsewhere, what had waited too long behind others was marked failed."""
    archive.write_bytes(mbox(*(mail(str(number)) for number in range(30))))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    for _ in range(5):  # nobody runs the next stage
        pipeline.world.clock.advance(DAY)
        assert pipeline.world.retry_job.run().requeued == {}
    assert {state.status for state in pipeline.world.store.states(Message)} == {"pending"}
    pipeline.run()
    pipeline.check_at_rest()
    assert {state.attempt_count for state in pipeline.world.store.states(Message)} == {1}


def test_a_run_that_was_interrupted_goes_on_after_hours(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere, a run of hours began anew, or never ended, after an interruption."""
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    names = [f"{number:02}" for number in range(20)]
    for name in names:
        shelf.put(name, f"Book {name}.")
    pipeline.submit("shelf://books")
    for checkpoint in (5, 4, 3):
        with pipeline.crashing_after_checkpoint(checkpoint):
            pipeline.run("ingestion")
        pipeline.world.clock.advance(7 * HOUR)  # no worker runs
    pipeline.run(within=HOUR)
    assert shelf.taken() == names, "nothing is fetched twice"
    assert pipeline.texts() == [f"Book {name}." for name in names]
    pipeline.check_at_rest()


def test_a_mail_whose_reading_failed_is_not_done(
    pipeline: Pipeline, shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Elsewhere, a mail was marked as done when it was fetched, and lost when it could not be read."""
    shelf.put("1", mail("1", "The first."), name="1.eml")
    shelf.put("2", mail("2", "The second."), name="2.eml")
    reader = "onward.pipeline.stages.reading.read_message"

    def fails_once(*given: object, **more: object) -> object:
        monkeypatch.setattr(reader, read_message)
        raise Permanent("the reader of this version has a bug")

    monkeypatch.setattr(reader, fails_once)
    pipeline.ingest("shelf://books")
    assert pipeline.status("shelf://books") == "partially_completed"
    (failed,) = [state for state in pipeline.world.store.states(Message) if state.status == "failed"]
    # Its bytes are kept, and it is put back with one action.
    retry = RetryDocuments(keys=(("messages", failed.id),))
    assert retry.run(pipeline.app, ActionProgress(), Actor("ada", "test")).touched == 1
    pipeline.run()
    pipeline.check_at_rest()
    assert pipeline.texts() == ["The first.", "The second."]
    assert pipeline.status("shelf://books") == "completed"


def test_one_bad_chunk_of_forty_loses_no_other(pipeline: Pipeline, archive: Path) -> None:
    """Elsewhere, a batch of chunks was lost with the one that could not be embedded."""
    archive.write_bytes(mbox(*(mail(str(number), f"Letter {number}.") for number in range(40))))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "chunking")
    real = pipeline.services["embedding"]

    def handle(chunks: list[object], work: object) -> object:
        if any("Letter 17." in str(chunk) for chunk in chunks):
            raise Permanent("this text cannot be embedded")
        return real.handler(chunks, work)

    pipeline.services["embedding"] = replace(real, handler=handle)
    pipeline.run(within=HOUR)
    counts = pipeline.app.store.document_counts(str(archive))["chunks"]
    assert counts == {"processed": 39, "failed": 1}
