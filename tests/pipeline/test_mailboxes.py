"""A mail archive becomes messages, threads, chunks, vectors and summaries, and every mail is accounted for."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from onward import Document
from onward.pipeline.documents import Archive, Chunk, Message, Summary, Thread
from tests.pipeline.stage import Pipeline, mail, mbox

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
    }
    assert pipeline.ask("SELECT count(*) FROM vectors") == [(2,)]
    assert pipeline.status(archive) == "completed"


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
    assert pipeline.report(archive)["messages"] == {
        "messages": 3,
        "parsed": 2,
        "failed": 0,
        "duplicates": 1,
        "new": 2,
    }


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
    assert counts["parsed"] + counts["failed"] + counts["duplicates"] == counts["messages"] == 3
    assert pipeline.status(archive) == "partially_completed"


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
    assert {chunk.text for chunk in pipeline.all(Chunk)} == {"A question?"}
    assert sorted(one.messages for one in pipeline.all(Summary)) == [1, 3]
    assert pipeline.status(archive) == "completed"


def test_an_archive_without_a_mail_is_done_at_once(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(b"")
    pipeline.ingest(archive)
    pipeline.check()
    assert pipeline.all(Message) == []
    assert not pipeline.ask("SELECT id FROM documents WHERE status = 'pending'")
