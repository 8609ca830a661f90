"""Ingesting a source again does only what has changed since."""

from __future__ import annotations

import json
from contextlib import closing
from pathlib import Path

import pytest

from onward.pipeline.documents import Chunk, Message, Summary, Thread
from onward.pipeline.source_settings import source_settings
from onward.pipeline.sources import submit
from onward.pipeline.stages import archive_changes
from onward.pipeline.stages.parsing import find_original
from onward.pipeline.watching import watch
from tests.support.pipeline_runs import Pipeline, mail, mbox

MADE = ("messages", "chunks", "threads", "summaries")
QUESTION = mail("1", "How does it work?")
REPLY = mail("2", "It works well, thank you.", references=["1"])
OTHER = mail("9", "Something else entirely.")


def test_nothing_changes_when_nothing_has_changed(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY, OTHER))
    pipeline.ingest(archive)
    before, content = pipeline.times(*MADE), pipeline.final_state()
    pipeline.world.clock.advance(3600)
    pipeline.submit(archive)
    assert pipeline.run() == 1, "only ingestion has something to do"
    assert pipeline.times(*MADE) == before
    assert pipeline.final_state() == content
    pipeline.check_at_rest()


def test_a_source_that_failed_for_a_while_changes_nothing_either(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.ingest(archive)
    before = pipeline.times(*MADE)
    content = archive.read_bytes()
    archive.unlink()
    pipeline.submit(archive)
    pipeline.run(within=600)
    assert pipeline.times(*MADE) == before
    archive.write_bytes(content)
    pipeline.ingest(archive)
    assert pipeline.times(*MADE) == before
    pipeline.check_at_rest()


def test_a_mailbox_that_grew_adds_only_what_is_new(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, OTHER))
    pipeline.ingest(archive)
    before = pipeline.times(*MADE)
    thread, other = pipeline.messages()["1"].thread_id, pipeline.messages()["9"].thread_id
    pipeline.world.clock.advance(3600)
    archive.write_bytes(mbox(QUESTION, OTHER, REPLY))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    after = pipeline.times(*MADE)
    new = [collection for collection, _ in after.keys() - before.keys()]
    assert sorted(new) == ["chunks", "messages"]
    changed = {key for key in before if before[key] != after[key]}
    assert changed == {("threads", thread), ("summaries", thread)}, "only the thread that grew is redone"
    summary = pipeline.app.get(Summary, thread)
    assert summary is not None
    assert summary.messages == 2
    assert ("summaries", other) in before
    assert pipeline.report(archive)["messages"] == {"messages": 3, "parsed": 3, "failed": 0, "duplicates": 0}


def test_the_bytes_of_a_mail_are_found_in_whatever_took_the_place_of_its_archive(
    pipeline: Pipeline, archive: Path
) -> None:
    for mails in ([REPLY, OTHER], [QUESTION, REPLY, OTHER], [OTHER, REPLY]):
        archive.write_bytes(mbox(*mails))
        pipeline.ingest(archive)
        for name, text in (("2", REPLY), ("9", OTHER)):
            found = find_original(pipeline.app, pipeline.messages()[name])
            assert found is not None
            blob, offset, length = found
            with closing(pipeline.app.blobs.open(blob)) as stream:
                stream.seek(offset)
                assert stream.read(length) == mbox(text)


def test_a_mailbox_that_lost_a_mail_loses_exactly_that(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY, OTHER))
    pipeline.ingest(archive)
    before = pipeline.times(*MADE)
    reply, thread = pipeline.messages()["2"], pipeline.messages()["2"].thread_id
    (chunk,) = pipeline.chunks_of("2")
    archive.write_bytes(mbox(QUESTION, OTHER))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    after = pipeline.times(*MADE)
    assert before.keys() - after.keys() == {("messages", reply.id), ("chunks", chunk.id)}
    assert pipeline.ask("SELECT count(*) FROM vectors") == [(2,)]
    assert pipeline.ask("SELECT count(*) FROM texts") == [(2,)]
    summary = pipeline.app.get(Summary, thread)
    assert summary is not None
    assert summary.messages == 1


def test_a_thread_goes_with_its_last_message(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY, OTHER))
    pipeline.ingest(archive)
    archive.write_bytes(mbox(OTHER))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert [len(pipeline.all(kind)) for kind in (Message, Chunk, Thread, Summary)] == [1, 1, 1, 1]


def test_a_mailbox_that_lost_everything_keeps_nothing(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.ingest(archive)
    archive.write_bytes(mbox(OTHER))
    pipeline.ingest(archive)
    archive.write_bytes(mbox(QUESTION, REPLY))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["1", "2"]


def test_reading_and_flagging_the_mails_of_a_maildir_changes_nothing(pipeline: Pipeline, folder: Path) -> None:
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir()
    (folder / "new" / "1700000000.1.host").write_text(QUESTION)
    (folder / "cur" / "1700000001.2.host:2,").write_text(REPLY)
    pipeline.ingest(folder)
    before = pipeline.times(*MADE)
    assert len(before) == 2 + 2 + 1 + 1
    (folder / "new" / "1700000000.1.host").rename(folder / "cur" / "1700000000.1.host:2,S")
    (folder / "cur" / "1700000001.2.host:2,").rename(folder / "cur" / "1700000001.2.host:2,FRS")
    pipeline.submit(folder)
    assert pipeline.run() == 1
    assert pipeline.times(*MADE) == before
    (folder / "cur" / "1700000001.2.host:2,FRS").unlink()
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert list(pipeline.messages()) == ["1"]


def test_asking_again_is_asking_for_what_failed(pipeline: Pipeline, archive: Path) -> None:
    archive.write_bytes(mbox(QUESTION))
    pipeline.submit(archive)
    pipeline.run("ingestion")
    for blob in (pipeline.home / "blobs").glob("??/*"):
        blob.unlink()
    pipeline.run()
    assert pipeline.status(archive) == "failed"
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert pipeline.status(archive) == "completed"
    assert list(pipeline.messages()) == ["1"]


@pytest.mark.parametrize("first", (mbox(QUESTION), mbox(QUESTION, REPLY, OTHER)))
def test_what_an_interrupted_fetch_has_found_gives_way_to_what_the_next_try_finds(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch, first: bytes
) -> None:
    """Both are of the same submission, and the older one is read first, with the newer one in its place."""
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    mailbox = folder / "list.mbox"
    mailbox.write_bytes(first)
    pipeline.submit(folder)
    with pipeline.crashing_after_checkpoint(1):
        pipeline.run("ingestion")
    mailbox.write_bytes(mbox(QUESTION, REPLY))
    pipeline.run("ingestion")
    pipeline.run()
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["1", "2"]


def test_what_was_there_before_wins_over_what_an_interrupted_fetch_has_found(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    mailbox = folder / "list.mbox"
    mailbox.write_bytes(mbox(QUESTION))
    pipeline.ingest(folder)
    mailbox.write_bytes(mbox(QUESTION, REPLY))
    pipeline.submit(folder)
    with pipeline.crashing_after_checkpoint(1):
        pipeline.run("ingestion")
    mailbox.write_bytes(mbox(QUESTION))
    pipeline.run("ingestion")
    pipeline.run()
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["1"]


def test_what_is_there_again_wins_over_what_is_read_while_it_is_fetched(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The archive in between takes the place of the one before, just when that is found unchanged."""
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 1)
    (folder / "a.txt").write_text("The first text.")
    pipeline.ingest(folder)
    (folder / "a.txt").write_text("What stood there in between.")
    pipeline.submit(folder)
    pipeline.run("ingestion")
    (folder / "a.txt").write_text("The first text.")
    (folder / "b.txt").write_text("Something new, to stop at.")
    pipeline.submit(folder)
    with pipeline.at_each_checkpoint(lambda work: pipeline.run("parsing")):
        pipeline.run("ingestion")
    pipeline.run(within=1.0)  # after which it is fetched once more
    pipeline.check_at_rest()
    assert pipeline.texts() == ["Something new, to stop at.", "The first text."]


def test_a_fetch_that_dies_at_the_same_place_again_does_not_get_on(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its checkpoints come by the clock, now earlier, now later; it gets on only beyond the farthest of them."""
    for number in range(4):
        (folder / f"{number}.txt").write_text(f"Note {number}")
    pipeline.submit(folder)
    seen: list[int] = []
    for items in (3, 2, 1):
        monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", items)
        with pipeline.crashing_after_checkpoint(1):
            pipeline.run("ingestion")
        ((cursor,),) = pipeline.ask("SELECT cursor FROM ledger WHERE service = 'ingestion' AND cursor IS NOT NULL")
        seen += [one["items"] for one in json.loads(cursor).values()]
    assert seen == [3, 3, 3]


def test_an_option_that_is_put_back_to_its_default_is_no_longer_kept(pipeline: Pipeline) -> None:
    site = "crawl+https://example.org/docs/"
    watch(pipeline.app, site, every=3600.0, options={"depth": "3", "include": "*/a/*"})
    watch(pipeline.app, site, options={"include": "", "rate": "2"})
    assert source_settings(pipeline.app, site).options == {"depth": "3", "rate": "2"}
    submit(pipeline.app, site, {"depth": "20"})
    assert source_settings(pipeline.app, site).options == {"rate": "2"}
