"""What waits after a run says until when, as far as anybody knows."""

from __future__ import annotations

from pathlib import Path

from onward import App, Document, Event, names
from onward.ops.queries.ingestion_report import due_time, read_ingestion_report
from onward.recovery.next_step import NextSteps
from onward.recovery.retry_decision import RetryJobRules
from onward.settings import load_settings
from onward.testing import Simulation
from tests.support.pipeline_runs import Pipeline, mail, mbox


class Note(Document):
    text: str = ""


class NoteWritten(Event):
    note_id: str = names(Note)


def due_in(*, sets_aside: bool) -> float | None:
    """How long a note waits whose only try has failed."""
    app = App(settings=load_settings({"ONWARD_MAX_RETRIES": "1"}))

    @app.service("reading", on=NoteWritten, finishes=Note, sets_aside=sets_aside)
    def read(note: Note, work: object) -> None:
        raise TimeoutError("too slow")

    with Simulation(app) as world:
        app.publish(NoteWritten(note_id="a"), documents=[Note(id="a")], source="desk")
        world.drain()
        state = app.state(Note, "a")
        assert state is not None
        at = due_time(NextSteps(app.store, RetryJobRules()), state)
        return None if at is None else round(at - world.clock.now(), 3)


def test_a_document_whose_round_failed_is_due_after_its_backoff() -> None:
    assert due_in(sets_aside=False) == 300.0


def test_a_document_that_is_set_aside_is_due_with_its_batch() -> None:
    assert due_in(sets_aside=True) == 60.0


def test_what_is_due_at_once_has_no_time(tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_bytes(mbox(mail("one")))
    with Pipeline(tmp_path / "home").running() as pipeline:
        pipeline.submit(tmp_path / "a.mbox")
        source = pipeline.source(tmp_path / "a.mbox")
        (waiting,) = read_ingestion_report(pipeline.app, source, {}).waiting
    assert (waiting.collection, waiting.count, waiting.until) == ("archives", 1, None)


def test_threads_wait_for_what_belongs_to_them_and_not_for_a_time(tmp_path: Path) -> None:
    (tmp_path / "a.mbox").write_bytes(mbox(mail("one"), mail("two")))
    with Pipeline(tmp_path / "home").running() as pipeline:
        pipeline.submit(tmp_path / "a.mbox")
        pipeline.run("ingestion", "parsing", "chunking")
        source = pipeline.source(tmp_path / "a.mbox")
        waiting = {one.collection: one for one in read_ingestion_report(pipeline.app, source, {}).waiting}
    assert waiting.keys() == {"chunks", "threads"}
    assert (waiting["threads"].incomplete, waiting["threads"].until) == (True, None)
    assert not waiting["chunks"].incomplete
