"""A folder is taken file by file: what came, changed or went is told from what stayed as it was."""

from __future__ import annotations

import gzip
from dataclasses import replace
from pathlib import Path

import pytest

from onward import Work
from onward.pipeline.documents import Archive, Message, Summary
from onward.pipeline.stages import archive_changes
from tests.support.pipeline_runs import Pipeline, mail, mbox, scratch_pipeline

SHARED = mail("shared", "This was sent to two lists.")


def test_files_that_came_changed_and_went(pipeline: Pipeline, folder: Path) -> None:
    (folder / "same.txt").write_text("This stays as it is.")
    (folder / "changed.txt").write_text("This is old.")
    (folder / "gone.txt").write_text("This goes away.")
    (folder / "old-name.txt").write_text("This gets another name.")
    pipeline.ingest(folder)
    same = pipeline.messages()["same.txt"]
    before = pipeline.times("messages")
    (folder / "changed.txt").write_text("This is new.")
    (folder / "gone.txt").unlink()
    (folder / "old-name.txt").rename(folder / "new-name.txt")
    (folder / "new.txt").write_text("This has just come.")
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert {name: one.body for name, one in pipeline.messages().items()} == {
        "same.txt": "This stays as it is.",
        "changed.txt": "This is new.",
        "new-name.txt": "This gets another name.",
        "new.txt": "This has just come.",
    }
    assert pipeline.times("messages")["messages", same.id] == before["messages", same.id]
    counts = pipeline.report(folder)["source"]
    assert counts == {"items": 4, "new": 3, "unchanged": 1, "failed": 0, "removed": 2}


def test_two_files_that_say_the_same_are_two_messages_of_one_blob(pipeline: Pipeline, folder: Path) -> None:
    (folder / "a.txt").write_text("The same.")
    (folder / "b.txt").write_text("The same.")
    pipeline.ingest(folder)
    assert sorted(pipeline.messages()) == ["a.txt", "b.txt"]
    assert pipeline.blobs() == 1
    (folder / "a.txt").unlink()
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["b.txt"]
    (message,) = pipeline.all(Message)
    stored = [one for one in pipeline.all(Archive) if one.blob]
    assert [one.id for one in stored] == [message.archive_id]


def test_a_file_that_cannot_be_read_is_kept_as_failed_and_read_when_it_can(
    pipeline: Pipeline, folder: Path
) -> None:
    (folder / "good.txt").write_text("This is good.")
    (folder / "bad.gz").write_bytes(b"\x1f\x8b\x08\x00 this is no archive")
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert pipeline.status(folder) == "partially_completed"
    assert sorted(pipeline.messages()) == ["good.txt"]
    (bad,) = [one for one in pipeline.all(Archive) if one.path and not one.blob]
    state = pipeline.app.state(Archive, bad.id)
    assert state is not None
    assert state.last_error is not None
    (folder / "bad.gz").unlink()
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert pipeline.status(folder) == "completed"


def test_a_file_that_cannot_be_read_for_a_while_keeps_what_was_read_before(
    pipeline: Pipeline, folder: Path
) -> None:
    note = folder / "note.gz"
    good, better = (_packed(text) for text in ("What it said at first.", "What it says now."))
    note.write_bytes(good)
    pipeline.ingest(folder)
    note.write_bytes(better)
    pipeline.submit(folder)
    pipeline.run("ingestion")
    note.write_bytes(b"\x1f\x8b\x08\x00 half written")
    pipeline.ingest(folder)
    assert pipeline.texts() == ["What it says now."]
    note.write_bytes(better)
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert pipeline.texts() == ["What it says now."]
    assert pipeline.status(folder) == "completed"


def _packed(text: str) -> bytes:
    return gzip.compress(text.encode())


def test_a_mail_in_two_mailboxes_stays_while_one_of_them_has_it(pipeline: Pipeline, folder: Path) -> None:
    (folder / "a.mbox").write_bytes(mbox(mail("1"), SHARED))
    (folder / "b.mbox").write_bytes(mbox(SHARED, mail("2")))
    pipeline.ingest(folder)
    assert sorted(pipeline.messages()) == ["1", "2", "shared"]
    (folder / "a.mbox").unlink()
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["2", "shared"]
    (folder / "b.mbox").write_bytes(mbox(mail("2")))
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["2"]


def test_a_mail_that_only_one_of_two_mailboxes_loses_stays(pipeline: Pipeline, folder: Path) -> None:
    (folder / "a.mbox").write_bytes(mbox(mail("1"), SHARED))
    (folder / "b.mbox").write_bytes(mbox(SHARED, mail("2")))
    pipeline.ingest(folder)
    (folder / "a.mbox").write_bytes(mbox(mail("1")))
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["1", "2", "shared"]


def test_a_mailbox_that_was_renamed_is_read_while_its_old_name_is_removed(
    pipeline: Pipeline, folder: Path
) -> None:
    (folder / "a.mbox").write_bytes(mbox(mail("1"), SHARED))
    pipeline.ingest(folder)
    (folder / "a.mbox").rename(folder / "b.mbox")
    pipeline.submit(folder)

    def removes_slowly(work: Work) -> None:
        pipeline.step("parsing")

    with pipeline.at_each_checkpoint(removes_slowly):
        pipeline.run("ingestion")
    pipeline.run()
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["1", "shared"]


def test_only_mailboxes_that_share_a_mail_are_read_again(pipeline: Pipeline, folder: Path) -> None:
    for number in range(30):
        (folder / f"{number}.eml").write_text(mail(str(number), f"This is mail {number}."))
    pipeline.ingest(folder)
    (folder / "7.eml").unlink()
    pipeline.submit(folder)
    assert pipeline.run() <= 3, "ingestion, and a look at the thread that went"
    pipeline.check_at_rest()
    assert len(pipeline.messages()) == len(pipeline.all(Summary)) == 29


@pytest.mark.prove
def test_more_files_than_a_commit_may_hold_go_back_to_what_they_were() -> None:
    with scratch_pipeline() as (pipeline, folder):
        for text in ("first", "second", "first"):
            for number in range(1001):
                (folder / f"{number}.txt").write_text(text)
            pipeline.submit(folder)
            pipeline.run("ingestion")
        assert pipeline.report(folder)["source"]["unchanged"] == 1001
        assert pipeline.counts(folder)["archives"] == {"pending": 2002, "processed": 1}


def test_a_crash_while_a_file_is_removed_leaves_nothing_behind(pipeline: Pipeline, folder: Path) -> None:
    (folder / "a.txt").write_text("This stays.")
    (folder / "b.mbox").write_bytes(mbox(mail("1"), mail("2")))
    pipeline.ingest(folder)
    (folder / "b.mbox").unlink()
    pipeline.submit(folder)
    with pipeline.crashing_after_checkpoint(1):
        pipeline.run("ingestion")
    pipeline.run(within=3600)
    pipeline.check_at_rest()
    assert sorted(pipeline.messages()) == ["a.txt"]


def test_a_commit_removes_only_so_many_files(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(archive_changes, "CHECKPOINT_ITEMS", 2)
    for number in range(7):
        (folder / f"{number}.txt").write_text(f"Note {number}")
    pipeline.ingest(folder)
    for file in folder.iterdir():
        file.unlink()
    real = pipeline.services["ingestion"]
    left: list[int] = []

    def handle(given: Archive, work: Work) -> None:
        real.handler(given, work)
        left.append(len(work.removes))

    pipeline.services["ingestion"] = replace(real, handler=handle)
    (folder / "new.txt").write_text("A new one")
    pipeline.ingest(folder)
    assert left == [left[0]]
    assert left[0] < 2
    assert pipeline.texts() == ["A new one"]
    pipeline.check_at_rest()


def test_the_scratch_of_another_process_may_vanish_at_any_moment(pipeline: Pipeline, folder: Path) -> None:
    scratch = pipeline.home / "scratch"
    scratch.mkdir()
    (scratch / "fetch-gone").symlink_to(scratch / "nowhere")
    (folder / "a.txt").write_text("A note")
    pipeline.ingest(folder)
    assert pipeline.texts() == ["A note"]
