"""A thread is summarised when it is complete: once, and again only when it changes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from onward import Permanent, Work
from onward.pipeline.documents import Chunk, Message, Summary, Thread
from onward.pipeline.stages import chunking, parsing
from tests.support.pipeline_runs import Pipeline, mail, mbox, scratch_pipeline

QUESTION = mail("1", "How does it work?")
REPLY = mail("2", "It works well.", references=["1"])
THIRD = mail("3", "A third voice.", references=["1"])


def _spoil(pipeline: Pipeline, service: str, spoil: Callable[[Any], None]) -> None:
    """Let a check run before a service's handler."""
    real = pipeline.services[service]

    def handle(given: Any, work: Work) -> None:
        spoil(given)
        real.handler(given, work)

    pipeline.services[service] = replace(real, handler=handle)


def test_it_is_not_summarised_while_its_archive_is_being_read(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION))
    pipeline.ingest(archive)
    before = pipeline.times("summaries")
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.submit(archive)
    pipeline.run("ingestion")
    pipeline.look_at(*pipeline.all(Thread))
    pipeline.run("orchestration", "summarization")
    assert pipeline.times("summaries") == before
    pipeline.run()
    assert pipeline.times("summaries") != before


def test_it_is_not_summarised_while_a_message_or_chunk_is_pending(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.submit(archive)
    for stages in (["ingestion", "parsing"], ["chunking"]):
        pipeline.run(*stages)
        pipeline.look_at(*pipeline.all(Thread))
        pipeline.run("orchestration", "summarization")
        assert pipeline.all(Summary) == []
    pipeline.run("embedding")
    pipeline.run("orchestration", "summarization")
    assert len(pipeline.all(Summary)) == 1


@given(order=st.permutations(range(6)), looks=st.lists(st.booleans(), min_size=6, max_size=6))
@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_is_summarised_exactly_once_in_whatever_order_its_chunks_finish(
    order: list[int], looks: list[bool]
) -> None:
    words = ["red", "green", "blue", "black", "white", "grey"]
    mails = [mail(str(n), f"The {word} one.", references=["0"] if n else ()) for n, word in enumerate(words)]
    with scratch_pipeline() as (pipeline, place):
        (place / "list.mbox").write_bytes(mbox(*mails))
        pipeline.submit(place)
        pipeline.run("ingestion", "parsing", "chunking")
        pipeline.drop_waiting("embedding")
        chunks = pipeline.all(Chunk)
        assert len(chunks) == 6
        written: list[Thread] = []
        _spoil(pipeline, "summarization", written.append)
        for number, look in zip(order, looks, strict=True):
            assert not written
            pipeline.embed(chunks[number])
            pipeline.run("embedding")
            if look:
                pipeline.run("orchestration", "summarization")
        pipeline.run()
        pipeline.check_at_rest()
        assert len(written) == 1
        (summary,) = pipeline.all(Summary)
        assert (summary.messages, summary.missing) == (6, 0)


def test_a_message_that_cannot_be_chunked_does_not_hold_up_its_thread(pipeline: Pipeline, archive: Path) -> None:
    def refuse(messages: list[Message]) -> None:
        if any("well" in one.body for one in messages):
            raise Permanent("this message is poison")

    archive.write_bytes(mbox(QUESTION, REPLY, THIRD))
    _spoil(pipeline, "chunking", refuse)
    pipeline.ingest(archive)
    assert pipeline.counts(archive)["messages"] == {"processed": 2, "failed": 1}
    (summary,) = pipeline.all(Summary)
    assert summary.messages == 3
    pipeline.check_at_rest()


def test_a_chunk_that_cannot_be_embedded_is_missing_from_the_summary_until_it_recovers(
    pipeline: Pipeline, archive: Path
) -> None:
    poison = ["well"]

    def refuse(chunks: list[Chunk]) -> None:
        if any(word in one.text for one in chunks for word in poison):
            raise Permanent("the model refused: this is poison")

    archive.write_bytes(mbox(QUESTION, REPLY, THIRD))
    _spoil(pipeline, "embedding", refuse)
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.counts(archive)["chunks"] == {"processed": 2, "failed": 1}
    (summary,) = pipeline.all(Summary)
    assert (summary.messages, summary.missing) == (3, 1)
    assert pipeline.status(archive) == "partially_completed"
    poison.clear()
    (letter,) = pipeline.world.dead_letters("embedding")
    assert pipeline.world.store.requeue(letter.row)
    pipeline.run()
    (summary,) = pipeline.all(Summary)
    assert (summary.messages, summary.missing) == (3, 0)
    assert pipeline.status(archive) == "completed"


def test_chunks_that_are_set_aside_are_missing_from_the_summary_until_they_recover(
    pipeline: Pipeline, archive: Path
) -> None:
    flaky = ["well"]

    def fail(chunks: list[Chunk]) -> None:
        if any(word in one.text for one in chunks for word in flaky):
            raise RuntimeError("something went wrong here")

    archive.write_bytes(mbox(QUESTION, REPLY, THIRD))
    _spoil(pipeline, "embedding", fail)
    pipeline.submit(archive)
    pipeline.run(within=300)
    (summary,) = pipeline.all(Summary)
    assert (summary.messages, summary.missing) == (3, 1)
    (batch,) = pipeline.world.store.failed_batches()
    assert len(batch.items) == 1
    assert "something went wrong here" in batch.errors[-1]["error"]
    assert pipeline.world.dead_letters("embedding") == [], "it is set aside instead"
    assert pipeline.status(archive) == "partially_completed"
    pipeline.check_at_rest()
    flaky.clear()
    (lost,) = [one for one in pipeline.all(Chunk) if "well" in one.text]
    pipeline.embed(lost)
    pipeline.run()
    (summary,) = pipeline.all(Summary)
    assert (summary.messages, summary.missing) == (3, 0)
    assert pipeline.world.store.failed_batches() == []
    assert pipeline.status(archive) == "completed"
    pipeline.check_at_rest()


def test_a_message_whose_handler_takes_its_process_down_does_not_hold_up_its_thread(
    pipeline: Pipeline, archive: Path
) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "chunking")
    reply = pipeline.messages()["2"].id
    killer = next(one for one in pipeline.all(Chunk) if one.message_id == reply)
    pipeline.crash_on("embedding", killer.id)
    state = pipeline.app.state(Chunk, killer.id)
    assert state is not None
    assert state.status == "failed"
    (summary,) = pipeline.all(Summary)
    assert (summary.messages, summary.missing) == (2, 1)
    pipeline.check_at_rest()


def test_a_message_that_comes_while_its_empty_thread_is_removed_keeps_it(
    pipeline: Pipeline, archive: Path
) -> None:
    archive.write_bytes(mbox(QUESTION, mail("9", "Else.")))
    pipeline.ingest(archive)
    archive.write_bytes(mbox(mail("9", "Else.")))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    archive.write_bytes(mbox(QUESTION, mail("9", "Else.")))
    pipeline.submit(archive)
    with pipeline.meanwhile("orchestration", lambda: pipeline.run("ingestion", "parsing")):
        pipeline.run("orchestration")
    pipeline.run()
    pipeline.check_at_rest()
    assert pipeline.summary_of("1") is not None


@pytest.mark.parametrize("stage", ("orchestration", "summarization"))
def test_a_message_that_comes_while_its_thread_is_looked_at_is_in_the_summary(
    pipeline: Pipeline, archive: Path, stage: str
) -> None:
    archive.write_bytes(mbox(QUESTION))
    pipeline.submit(archive)

    def grows() -> None:
        archive.write_bytes(mbox(QUESTION, REPLY))
        pipeline.submit(archive)
        pipeline.run("ingestion", "parsing", "chunking", "embedding")

    with pipeline.meanwhile(stage, grows):
        pipeline.run()
    pipeline.run()
    pipeline.check_at_rest()
    summary = pipeline.summary_of("2")
    assert summary is not None
    assert summary.messages == 2


def test_it_is_not_summarised_without_a_message_that_it_was_asked_for_with(
    pipeline: Pipeline, folder: Path
) -> None:
    """A mailbox loses a mail that another one has, too: until that is read again, the mail is away."""
    (folder / "a.mbox").write_bytes(mbox(mail("9", "Else."), QUESTION))
    (folder / "b.mbox").write_bytes(mbox(mail("8", "Else again."), QUESTION))
    pipeline.submit(folder)
    pipeline.run("ingestion", "parsing", "chunking", "embedding", "orchestration")
    thread = pipeline.messages()["1"].thread_id
    (folder / "a.mbox").write_bytes(mbox(mail("9", "Else.")))
    pipeline.submit(folder)
    pipeline.run("ingestion")
    assert pipeline.step("parsing")
    assert "1" not in pipeline.messages()
    pipeline.run("summarization")
    assert pipeline.app.get(Summary, thread) is None
    pipeline.run()
    pipeline.check_at_rest()
    summary = pipeline.summary_of("1")
    assert summary is not None
    assert [one.sentence for one in summary.citations] == ["How does it work?"]


def test_chunks_that_are_embedded_before_their_message_is_finished_do_not_leave_its_thread_waiting(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A checkpoint announces chunks while their messages are still being chunked."""
    monkeypatch.setattr(chunking, "CHECKPOINT_CHUNKS", 1)
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    with pipeline.at_each_checkpoint(lambda work: pipeline.run("embedding", "orchestration")):
        pipeline.run("chunking")
    pipeline.run()
    pipeline.check_at_rest()
    assert len(pipeline.all(Summary)) == 1


def test_chunks_that_outlive_their_batch_do_not_leave_their_thread_waiting(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A batch that fails after a checkpoint is halved; its chunks are embedded by then, and not once more."""
    monkeypatch.setattr(chunking, "CHECKPOINT_CHUNKS", 1)
    archive.write_bytes(mbox(QUESTION, mail("9", "Another matter.")))
    real = pipeline.services["chunking"]

    def fail_together(messages: list[Message], work: Work) -> None:
        real.handler(messages, work)
        if len(messages) > 1:
            raise ConnectionError("not both at once")

    pipeline.services["chunking"] = replace(real, handler=fail_together)
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing", "orchestration")
    with pipeline.at_each_checkpoint(lambda work: pipeline.run("embedding", "orchestration")):
        assert pipeline.step("chunking")
    monkeypatch.setattr(chunking, "CHECKPOINT_CHUNKS", 400)
    pipeline.run(within=60.0)
    pipeline.check_at_rest()
    assert len(pipeline.all(Summary)) == 2


def test_an_archive_that_is_given_up_half_read_does_not_hold_up_what_was_read(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "CHECKPOINT_MESSAGES", 1)
    archive.write_bytes(mbox(QUESTION, mail("9", "Another matter.")))
    pipeline.submit(archive)
    pipeline.run("ingestion")

    def give_up(work: Work) -> None:
        pipeline.run("chunking", "embedding", "orchestration")
        raise Permanent("the rest cannot be read")

    with pipeline.at_each_checkpoint(give_up):
        pipeline.run("parsing")
    pipeline.run()
    assert pipeline.counts(archive)["messages"] == {"processed": 1}
    assert pipeline.summary_of("1") is not None
    pipeline.check_at_rest()
