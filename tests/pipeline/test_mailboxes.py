"""A mail archive becomes messages, threads, chunks, vectors and summaries, and every mail is accounted for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from onward import Document
from onward.ledger.reader import Reader
from onward.model.ledger import FoundDocument
from onward.model.ledger_views import ScheduleResult
from onward.ops.actions.document_retries import schedule
from onward.ops.queries.document_details import next_step_of
from onward.ops.text.history import next_step_command
from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread, find_archives
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.message_reader import ReadMessage, read_message
from onward.pipeline.search import Query, search
from onward.pipeline.stages import chunking, reading
from onward.pipeline.stages.parsing import find_original
from tests.support.pipeline_runs import Pipeline, mail, mbox

TOO_LARGE = 50_000_001
"""One byte more than a message may have to be read."""


def test_each_stage_makes_its_documents(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(mail("1", "How does it work?"), mail("2", "It works well.", references=["1"])))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.counts(archive) == {
        "archives": {"processed": 2},  # the request, and what was fetched
        "messages": {"processed": 2},
        "threads": {"processed": 1},
        "chunks": {"processed": 2},
        "summaries": {"processed": 1},
        "reports": {"processed": 2},
        "tasks": {"processed": 1},
        "versions": {"processed": 1},
    }
    assert pipeline.ask("SELECT count(*) FROM vectors") == [(2,)]
    assert pipeline.status(archive) == "completed"


def test_an_archive_is_found_without_reading_the_messages_of_its_place(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Messages have the origin of their archive as a key, too: by it, each batch would read the whole mailbox."""
    asked: list[str] = []
    find = Reader.find

    def recorded(self: Reader, document: type[Document], key: str, values: list[str]) -> list[FoundDocument]:
        asked.extend([key] if document is Archive else [])
        return find(self, document, key, values)

    monkeypatch.setattr(Reader, "find", recorded)
    archive.write_bytes(mbox(mail("1", "One."), mail("2", "Two.")))
    pipeline.ingest(archive)
    assert "place" in asked
    stored = next(one for one in pipeline.all(Archive) if one.blob)
    asked.clear()
    assert [one.id for one in find_archives(pipeline.app.store, [stored.origin])] == [stored.id]
    assert asked == ["place"]
    pipeline.ask("DELETE FROM keys WHERE name = 'place'")  # as an older Onward writes it
    assert [one.id for one in find_archives(pipeline.app.store, [stored.origin])] == [stored.id]


def test_a_message_says_where_it_lies_in_the_archive(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(mail("1", "One."), mail("2", "Two.")))
    pipeline.ingest(archive)
    stored = next(one for one in pipeline.all(Archive) if one.blob)
    for name, text in (("1", b"One."), ("2", b"Two.")):
        message = pipeline.messages()[name]
        with closing(pipeline.app.blobs.open(str(stored.blob))) as stream:
            stream.seek(message.offset)
            assert text in stream.read(message.length)


def test_replies_belong_to_the_thread_of_their_first_reference(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(
        mbox(
            mail("2", "A reply.", references=["1"]),
            mail("3", "A reply to a reply.", references=["1", "2"]),
            mail("1", "A beginning."),
            mail("9", "Another beginning."),
        )
    )
    pipeline.ingest(archive)
    found = pipeline.messages()
    assert found["1"].thread_id == found["2"].thread_id == found["3"].thread_id != found["9"].thread_id
    summary = pipeline.summary_of("1")
    assert summary is not None
    assert summary.messages == 3


def test_a_thread_whose_first_message_is_missing_is_a_thread_all_the_same(
    pipeline: Pipeline, archive: Path
) -> None:
    archive.write_bytes(
        mbox(mail("2", "A reply.", references=["1"]), mail("4", "One more.", references=["1", "3"]))
    )
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    (thread,) = pipeline.all(Thread)
    assert thread.root == "1@example.org"
    assert thread.id == Document.make_id("thread", pipeline.source(archive), "1@example.org")
    assert thread.messages == 2


def test_the_same_mail_twice_is_one_message(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(mail("1"), mail("1"), mail("2")))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.report(archive)["messages"] == {"messages": 2, "parsed": 2, "failed": 0, "duplicates": 1}


def test_two_bodies_under_one_message_id_are_two_messages_of_one_thread(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(mail("1", "The first."), mail("1", "The second.")))
    pipeline.ingest(archive)
    assert pipeline.texts() == ["The first.", "The second."]
    (thread,) = pipeline.all(Thread)
    assert thread.messages == 2


def test_mails_without_a_message_id_are_told_apart_by_what_they_say(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(mail(None, "One."), mail(None, "Two."), mail(None, "One.")))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.texts() == ["One.", "Two."]
    assert len(pipeline.all(Thread)) == 2
    assert pipeline.report(archive)["messages"]["duplicates"] == 1


def test_a_message_that_cannot_be_read_is_kept_with_its_bytes_and_the_others_go_on(
    pipeline: Pipeline, archive: Path
) -> None:
    bad = mail("2", "x" * 100).encode() + b"y" * TOO_LARGE + b"\n"
    first = mbox(mail("1", "Before."))
    archive.write_bytes(first + mbox(bad) + mbox(mail("3", "After.")))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    (failed,) = [one for one in pipeline.all(Message) if one.blob]
    state = pipeline.app.state(Message, failed.id)
    assert state is not None
    assert state.status == "failed"
    assert state.last_error is not None
    assert "larger than 50 MB" in state.last_error["message"]
    with closing(pipeline.app.blobs.open(str(failed.blob))) as stream:
        same = stream.read() == mbox(bad)  # told apart here: nobody wants to see 50 MB
        assert same
    assert failed.offset == len(first)
    assert pipeline.texts() == ["", "After.", "Before."]
    counts = pipeline.report(archive)["messages"]
    assert counts == {"messages": 3, "parsed": 2, "failed": 1, "duplicates": 0}
    assert pipeline.status(archive) == "partially_completed"


class Odd(Exception):
    """What nobody has thought of."""


@pytest.mark.parametrize("error", (ValueError, KeyError, MemoryError, RecursionError, OSError, StopIteration, Odd))
def test_whatever_a_reader_raises_costs_one_message(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    def read(place: Archive, id: str, raw: RawMessage, *_: object) -> ReadMessage:
        if b"Second." in raw.raw:
            raise error("too odd to be read")
        return read_message(place, id, raw)

    monkeypatch.setattr(reading, "read_message", read)
    archive.write_bytes(mbox(mail("1", "First."), mail("2", "Second."), mail("3", "Third.")))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.texts() == ["", "First.", "Third."]
    counts = {"messages": 3, "parsed": 2, "failed": 1, "duplicates": 0}
    assert pipeline.report(archive)["messages"] == counts
    (failed,) = pipeline.app.store.states(Message, status="failed")
    assert failed.last_error is not None
    assert (failed.last_error["error_type"], error.__name__ in failed.last_error["message"]) == (
        "UnreadableMessage",
        True,
    )


def test_an_interruption_is_no_fault_of_a_message(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    archive.write_bytes(mbox(mail("1", "First.")))
    pipeline.submit(archive)
    pipeline.run("ingestion")
    with monkeypatch.context() as patched, suppress(KeyboardInterrupt):
        patched.setattr(reading, "read_message", interrupt)
        pipeline.run("parsing")
    assert pipeline.all(Message) == []
    pipeline.world.clock.advance(3600)
    pipeline.run()
    assert pipeline.texts() == ["First."]


@pytest.fixture(params=["sqlite", "postgres"])
def on_each_store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Pipeline]:
    store = request.getfixturevalue("postgres_url") if request.param == "postgres" else ""
    small = {"ONWARD_CHUNK_TOKENS": "32", "ONWARD_CHUNK_OVERLAP": "0"}
    with Pipeline(tmp_path / "home", store=store, **small).running() as running:
        yield running


def test_what_show_advises_for_an_unreadable_message_reads_it_again(
    on_each_store: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug that is fixed later")

    pipeline, app = on_each_store, on_each_store.app
    long = "\n\n".join(f"This is paragraph number {n} of a long mail that has many of them." for n in range(20))
    mails = [mail("1", "A question?"), mail("2", long, references=["1"]), mail("3", ">From it.", references=["1"])]
    archive.write_bytes(mbox(*mails))
    with monkeypatch.context() as patched:
        patched.setattr(reading, "read_message", fail)
        pipeline.ingest(archive)
    states = app.store.states(Message, status="failed")
    assert len(states) == 3
    archive.write_bytes(mbox(*mails, mail("4", "It has grown.")))  # the archive they were read from is replaced
    pipeline.ingest(archive)
    monkeypatch.setattr(chunking, "CHECKPOINT_CHUNKS", 3)
    for state in states:
        assert next_step_command(next_step_of(app, state)) == f"onward retry messages/{state.id}"
        put_back = schedule(app, [("messages", state.id)], app.store.now())
        assert list(put_back.values()) == [ScheduleResult.SCHEDULED]
    pipeline.run(within=60.0)
    assert pipeline.counts(archive)["messages"] == {"processed": 4}
    assert {one.id for one in states} < {one.id for one in pipeline.all(Message)}, "with the ids they had"
    assert [len(pipeline.chunks_of(name)) > 1 for name in "1234"] == [False, True, False, False]
    assert pipeline.messages()["3"].body == "From it.\n"
    assert search(app, Query("paragraph")).hits[0].message.message_id == "2@example.org"
    found = find_original(app, pipeline.messages()["2"])
    assert found is not None
    with closing(app.blobs.open(found[0])) as stream:
        stream.seek(found[1])
        assert b"paragraph number 0" in stream.read(found[2])
    summary = pipeline.summary_of("2")
    assert summary is not None
    assert summary.messages == 3
    assert {one.id for one in pipeline.all(Thread)} == {one.thread_id for one in pipeline.all(Message)}


@pytest.mark.parametrize("reverse", (False, True))
def test_the_subject_of_a_thread_is_that_of_its_first_message_in_whatever_order_they_are_read(
    on_each_store: Pipeline, archive: Path, reverse: bool
) -> None:
    days = (("1", "The mast", 2), ("2", "Re: The mast", 3), ("3", "The mast (was: The boat)", 4))
    mails = [
        mail(id, subject=subject, date=f"{day} Mar 2026 10:00:00 +0000", references=["1"][: day - 2])
        for id, subject, day in days
    ]
    archive.write_bytes(mbox(*(reversed(mails) if reverse else mails)))
    on_each_store.ingest(archive)
    (thread,) = on_each_store.all(Thread)
    assert thread.subject == "The mast"
    state = on_each_store.app.state(Thread, thread.id)
    assert state is not None
    assert state.status == "processed"
    assert len(on_each_store.all(Summary)) == 1


def test_a_message_that_is_still_unreadable_fails_again_with_its_error(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bug that stays")

    monkeypatch.setattr(reading, "read_message", fail)
    archive.write_bytes(mbox(mail("1", "A question?")))
    pipeline.ingest(archive)
    (state,) = pipeline.app.store.states(Message)
    schedule(pipeline.app, [("messages", state.id)], pipeline.app.store.now())
    pipeline.run(within=60.0)
    (again,) = pipeline.app.store.states(Message, status="failed")
    assert again.last_error is not None
    assert state.last_error is not None
    assert (again.id, again.last_error["message"]) == (state.id, state.last_error["message"])
    assert again.attempt_count > state.attempt_count, "it was tried again"


@pytest.mark.parametrize(
    "body",
    (
        pytest.param('"' * 1_950_000, id="quotation marks"),
        pytest.param('word "\n' * 300_000, id="short lines"),
        pytest.param("\x01" * 1_950_000, id="control characters"),
    ),
)
def test_large_mails_whose_text_grows_when_it_is_stored_do_not_fail_their_archive(
    pipeline: Pipeline, archive: Path, body: str
) -> None:
    archive.write_bytes(mbox(mail("1", "Before."), mail("2", body), mail("3", body), mail("4", "After.")))
    pipeline.submit(archive)
    pipeline.run("ingestion", "parsing")
    found = pipeline.report(archive)["messages"]
    assert found["messages"] == 4
    assert found["parsed"] + found["failed"] == 4
    assert {"Before.", "After."} <= set(pipeline.texts())


def test_empty_mails_and_mails_that_only_quote_complete_their_thread(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(
        mbox(
            mail("1", "A question?"),
            mail("2", "", references=["1"]),
            mail("3", "> A question?\n> And another.", references=["1"]),
            mail("4", ""),
        )
    )
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert {chunk.text for chunk in pipeline.all(Chunk)} == {"A question?", "> A question?\n> And another."}
    assert sorted(one.messages for one in pipeline.all(Summary)) == [1, 3]
    assert pipeline.status(archive) == "completed"


def test_an_archive_without_a_mail_is_done_at_once(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(b"")
    pipeline.ingest(archive)
    pipeline.check()
    assert pipeline.all(Message) == []
    assert not pipeline.ask("SELECT id FROM documents WHERE status = 'pending'")
