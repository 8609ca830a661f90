"""Threads as readers know them, case by case: which mails belong together, also when one comes late."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from onward import Document
from onward.pipeline.documents import Message, Summary, Thread
from onward.pipeline.events import ThreadsDiverged
from onward.pipeline.mail_threads import ThreadMail, find_threads, thread_mail
from onward.pipeline.search import Query, search
from onward.pipeline.stages import parsing
from onward.pipeline.subjects import is_reply
from tests.support.mail_forests import assert_threads_are_right
from tests.support.pipeline_runs import Pipeline, mail, mbox

DAY = 86_400.0


def written(
    id: str,
    *references: str,
    subject: str = "A question",
    day: float | None = 0.0,
    to: Sequence[str] = (),
    named: str | None = None,
) -> ThreadMail:
    """A mail as threads see it; `named` is its Message-ID, if that is not its id."""
    return thread_mail(
        id=id,
        source="a list",
        message_id=id if named is None else named,
        references=references,
        subject=subject,
        date=None if day is None else day * DAY,
        addresses=to,
    )


def threads(*mails: ThreadMail) -> list[str]:
    """The threads of these mails, each as the sorted ids of its mails."""
    found: dict[str, list[str]] = {}
    for id, thread in sorted(find_threads(mails).items()):
        found.setdefault(thread, []).append(id)
    return sorted("".join(ids) for ids in found.values())


def root_of(*mails: ThreadMail) -> str:
    (thread,) = set(find_threads(mails).values())
    return next(name for name in "abcdefxyz" if Document.make_id("thread", "a list", name) == thread)


# -- by references


def test_a_reply_belongs_to_the_mails_it_refers_to() -> None:
    assert threads(written("a"), written("b", "a"), written("c", "a", "b"), written("x")) == ["abc", "x"]


def test_a_reply_with_in_reply_to_alone_belongs_to_the_thread_of_that_mail() -> None:
    """The reader gives In-Reply-To as the last reference."""
    assert threads(written("a"), written("b", "a"), written("c", "b")) == ["abc"]


def test_references_that_were_cut_join_the_same_thread() -> None:
    assert threads(written("a"), written("b", "a"), written("c", "a", "b"), written("d", "b", "c")) == ["abcd"]


def test_two_replies_to_a_missing_mail_belong_together() -> None:
    assert threads(written("b", "a"), written("c", "a")) == ["bc"]
    assert root_of(written("b", "a"), written("c", "a")) == "a", "its root is the missing mail"


def test_mails_that_only_a_later_one_joins_are_one_thread() -> None:
    assert threads(written("a"), written("x")) == ["a", "x"]
    assert threads(written("a"), written("x"), written("c", "a", "x")) == ["acx"]


def test_the_root_is_the_mail_that_has_no_parent() -> None:
    assert root_of(written("c", "b"), written("b", "a"), written("a")) == "a"
    assert root_of(written("c", "b"), written("d", "a", "b")) == "a"


def test_of_two_mails_without_a_parent_the_root_is_always_the_same() -> None:
    mails = [written("a"), written("x"), written("c", "a"), written("d", "x", "c")]
    assert root_of(*mails) == root_of(*mails[::-1]) in ("a", "x")


def test_a_loop_is_one_thread() -> None:
    mails = [written("a", "c"), written("b", "a"), written("c", "b"), written("d", "c")]
    assert threads(*mails) == ["abcd"]
    assert root_of(*mails) == root_of(*mails[::-1])
    assert threads(written("a", "a", "b"), written("b", "b", "a")) == ["ab"]


def test_two_mails_with_one_message_id_are_of_one_thread() -> None:
    first, second = written("1", named="a"), written("2", "x", named="a")
    assert threads(first, second, written("b", "a")) == ["12b"]


def test_mails_without_a_message_id_are_threads_of_their_own() -> None:
    assert threads(written("1", named=""), written("2", named=""), written("3", "a", named="")) == ["1", "2", "3"]


def test_an_address_in_in_reply_to_is_no_mail() -> None:
    """Some programs write the person there; all replies to her would be one thread."""
    mails = [written(id, "Ada@harbour.example", to=["ada@harbour.example"], subject=id) for id in "ab"]
    assert threads(*mails) == ["a", "b"]


# -- by subjects


@pytest.mark.parametrize(
    "subject",
    (
        "Re: A question",
        "AW: A question",
        "Re[2]: [list] Re: a  Question",
        "[list] SV: A question",
        "回复：A question",
        "R: A question",
        "RIF: Re: A question",
        "RES: A question",
        "YNT: A question",
        "Vá: A question",
        "Ответ: A question",
        "ΑΠ: A question",
        "返信: A question",
        "회신: A question",
        "Re: 转发: A question",
        "Re : ENC: A question",
    ),
)
def test_a_reply_without_references_belongs_to_the_last_mail_with_its_subject(subject: str) -> None:
    assert threads(written("a"), written("b", subject=subject, day=1)) == ["ab"]


@pytest.mark.parametrize(
    "subject",
    (
        "A question",
        "Fwd: A question",
        "Re: Another question",
        "Re:",
        "Reason: A question",
        "RV: A question",
        "転送: A question",
    ),
)
def test_nothing_else_is_joined_by_its_subject(subject: str) -> None:
    assert threads(written("a"), written("b", subject=subject, day=1)) == ["a", "b"]


def test_a_reply_with_references_is_not_joined_by_its_subject() -> None:
    assert threads(written("a"), written("b", "x", subject="Re: A question", day=1)) == ["a", "b"]


def test_a_reply_belongs_to_the_last_of_several_mails_with_its_subject() -> None:
    weekly = [written("a", subject="Minutes"), written("b", subject="Minutes", day=7)]
    assert threads(*weekly, written("c", subject="Re: Minutes", day=8)) == ["a", "bc"]


def test_a_mail_that_comes_late_takes_its_reply_from_an_older_one() -> None:
    older, reply = written("a", subject="Minutes"), written("c", subject="Re: Minutes", day=8)
    assert threads(older, reply) == ["ac"]
    assert threads(older, reply, written("b", subject="Minutes", day=7)) == ["a", "bc"]


def test_a_subject_that_is_two_weeks_old_is_another_conversation() -> None:
    assert threads(written("a"), written("b", subject="Re: A question", day=14)) == ["ab"]
    assert threads(written("a"), written("b", subject="Re: A question", day=14.1)) == ["a", "b"]
    steps = [written(id, subject="Re: A question", day=13 * n) for n, id in enumerate("bcd", 1)]
    assert threads(written("a"), *steps) == ["abcd"], "each is near to the one before"


def test_a_mail_that_comes_later_by_its_date_is_no_parent() -> None:
    assert threads(written("a", day=2), written("b", subject="Re: A question", day=1)) == ["a", "b"]
    assert threads(written("a", day=None), written("b", subject="Re: A question", day=1)) == ["a", "b"]


def test_subjects_of_other_sources_join_nothing() -> None:
    other = thread_mail(
        id="b", source="another list", message_id="b", references=[], subject="Re: A question", date=DAY
    )
    assert threads(written("a"), other) == ["a", "b"]


def test_a_prefix_is_no_word() -> None:
    assert is_reply("Re: x")
    assert is_reply("[a] [b] Antw: x")
    assert is_reply("RE [3] : x")
    assert not is_reply("Regarding: x")
    assert not is_reply("Are: x")
    assert not is_reply("Ref: x")
    assert not is_reply("Res judicata")
    assert not is_reply("x Re: y")


# -- in the store


@pytest.fixture
def _small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parsing, "CHECKPOINT_MESSAGES", 1)


LATE = """In-Reply-To: <2@example.org>
"""


def test_a_thread_that_gets_its_beginning_later_is_merged(pipeline: Pipeline, folder: Path) -> None:
    (folder / "march.mbox").write_bytes(mbox(mail("3", "Third, of herons.", headers=LATE), mail("9", "Alone.")))
    pipeline.ingest(folder)
    before = pipeline.messages()["3"].thread_id
    embedded = pipeline.ask("SELECT doc, vector FROM vectors ORDER BY doc")
    (folder / "april.mbox").write_bytes(
        mbox(mail("1", "First, of gulls."), mail("2", "Second, of terns.", references=["1"]))
    )
    alone = pipeline.messages()["9"]
    seen = pipeline.times("messages", "chunks", "threads")
    pipeline.ingest(folder)
    pipeline.run(within=600)
    pipeline.check_at_rest()
    assert_threads_are_right(pipeline.app)
    found = pipeline.messages()
    now = found["1"].thread_id
    assert (
        found["3"].thread_id
        == found["2"].thread_id
        == now
        == Document.make_id("thread", pipeline.source(folder), "1@example.org")
    )
    assert pipeline.app.get(Thread, before) is None
    assert pipeline.app.get(Summary, before) is None
    thread = pipeline.app.get(Thread, now)
    assert thread is not None
    assert (thread.root, thread.messages) == ("1@example.org", 3)
    summary = pipeline.summary_of("3")
    assert summary is not None
    assert summary.messages == 3
    hits = search(pipeline.app, Query("herons", thread=now)).hits
    assert [hit.message.message_id for hit in hits] == ["3@example.org"]
    # What does not depend on the thread is not made again, and what is not of these threads is not touched.
    assert set(embedded) <= set(pipeline.ask("SELECT doc, vector FROM vectors"))
    after = pipeline.times("messages", "chunks", "threads")
    for key in [("messages", alone.id), ("threads", alone.thread_id)]:
        assert after[key] == seen[key]


def test_a_mail_is_shown_in_its_new_thread(pipeline: Pipeline, folder: Path) -> None:
    from onward.ops.queries.document_details import messages_of_thread

    (folder / "1.mbox").write_bytes(mbox(mail("3", headers=LATE)))
    pipeline.ingest(folder)
    (folder / "2.mbox").write_bytes(mbox(mail("1"), mail("2", references=["1"])))
    pipeline.ingest(folder)
    pipeline.run(within=600)
    shown = messages_of_thread(pipeline.app, pipeline.messages()["1"].thread_id, limit=10)
    assert {one.message_id for one in shown} == {"1@example.org", "2@example.org", "3@example.org"}


def test_a_late_mail_splits_what_a_subject_had_joined(pipeline: Pipeline, folder: Path) -> None:
    dates = ["Mon, 2 Mar 2026 10:00:00 +0000", "Mon, 9 Mar 2026 10:00:00 +0000", "Tue, 10 Mar 2026 10:00:00 +0000"]
    first, second = (mail(id, subject="Minutes", date=date) for id, date in zip("12", dates, strict=False))
    (folder / "1.mbox").write_bytes(mbox(first, mail("3", subject="Re: Minutes", date=dates[2])))
    pipeline.ingest(folder)
    found = pipeline.messages()
    assert found["1"].thread_id == found["3"].thread_id
    (folder / "2.mbox").write_bytes(mbox(second))
    pipeline.ingest(folder)
    pipeline.run(within=600)
    found = pipeline.messages()
    assert found["1"].thread_id != found["2"].thread_id == found["3"].thread_id
    pipeline.check_at_rest()
    assert_threads_are_right(pipeline.app)


def test_two_archives_that_do_not_see_each_other_end_in_one_thread(pipeline: Pipeline, folder: Path) -> None:
    (folder / "1.mbox").write_bytes(mbox(mail("3", headers=LATE)))
    (folder / "2.mbox").write_bytes(mbox(mail("2", references=["1"])))
    pipeline.submit(folder)
    pipeline.run("ingestion")
    with pipeline.meanwhile("parsing", lambda: pipeline.step("parsing")):  # one commits while the other has read
        pipeline.run("parsing")
    found = pipeline.messages()
    assert found["2"].thread_id != found["3"].thread_id, "neither has seen the other"
    pipeline.run(within=600)
    found = pipeline.messages()
    assert found["2"].thread_id == found["3"].thread_id
    pipeline.check_at_rest()
    assert_threads_are_right(pipeline.app)


@pytest.mark.parametrize("checkpoint", range(1, 6))
@pytest.mark.usefixtures("_small_batches")
def test_a_repair_that_is_killed_goes_on(pipeline: Pipeline, folder: Path, checkpoint: int) -> None:
    replies = [mail(str(n), f"Reply {n}.", headers=LATE) for n in range(3, 7)]
    (folder / "1.mbox").write_bytes(mbox(*replies))
    pipeline.ingest(folder)
    (folder / "2.mbox").write_bytes(mbox(mail("1"), mail("2", references=["1"])))
    pipeline.submit(folder)
    pipeline.run("ingestion", "parsing", "chunking", "embedding")
    with pipeline.crashing_after_checkpoint(checkpoint, surely=False):
        pipeline.run("parsing.threads", within=600)
    pipeline.run(within=7_200)
    pipeline.check_at_rest()
    assert_threads_are_right(pipeline.app)


def test_a_chunk_that_is_being_made_while_its_message_moves_has_the_new_thread(
    pipeline: Pipeline, folder: Path
) -> None:
    (folder / "1.mbox").write_bytes(mbox(mail("3", headers=LATE)))
    pipeline.submit(folder)
    pipeline.run("ingestion", "parsing")
    (folder / "2.mbox").write_bytes(mbox(mail("1"), mail("2", references=["1"])))
    pipeline.submit(folder)
    pipeline.run("ingestion", "parsing")
    message = pipeline.messages()["3"]

    def move() -> None:
        found = sorted({one.thread_id for one in pipeline.messages().values()})
        pipeline.app.publish(ThreadsDiverged(source=message.source, thread_ids=found), source=message.source)
        pipeline.run("parsing.threads", within=600)
        assert pipeline.messages()["3"].thread_id != message.thread_id

    with pipeline.meanwhile("chunking", move):
        pipeline.run("chunking")
    pipeline.run(within=600)
    pipeline.check_at_rest()
    assert_threads_are_right(pipeline.app)


def test_a_mail_that_vanishes_is_a_missing_one(pipeline: Pipeline, folder: Path) -> None:
    """It still joins those that refer to it, but what only it has joined is apart again."""
    (folder / "1.mbox").write_bytes(mbox(mail("1"), mail("7", references=["5"]), mail("8", references=["5"])))
    (folder / "2.mbox").write_bytes(mbox(mail("5", references=["1"])))
    pipeline.ingest(folder)
    assert len(pipeline.all(Thread)) == 1
    (folder / "2.mbox").unlink()
    pipeline.ingest(folder)
    pipeline.run(within=600)
    found = pipeline.messages()
    assert found["1"].thread_id != found["7"].thread_id == found["8"].thread_id
    pipeline.check_at_rest()
    assert_threads_are_right(pipeline.app)


def test_a_forgotten_source_leaves_no_threads(pipeline: Pipeline, folder: Path) -> None:
    (folder / "1.mbox").write_bytes(mbox(mail("3", headers=LATE), mail("2", references=["1"])))
    pipeline.ingest(folder)
    pipeline.forget(folder)
    assert not pipeline.all(Thread)
    assert not pipeline.all(Message)
    assert not pipeline.ask("SELECT * FROM keys")


def test_mails_that_an_older_release_has_stored_keep_their_threads(pipeline: Pipeline, folder: Path) -> None:
    """They have no keys by which a thread is found; a new mail finds theirs by its first reference."""
    (folder / "1.mbox").write_bytes(mbox(mail("1"), mail("2", references=["1"])))
    pipeline.ingest(folder)
    pipeline.ask("DELETE FROM keys WHERE name IN ('head', 'linked', 'lone') OR name LIKE 'subject %'")
    pipeline.ask("UPDATE bodies SET body = json_remove(body, '$.placeholders')")
    (folder / "2.mbox").write_bytes(mbox(mail("3", references=["1", "2"])))
    pipeline.ingest(folder)
    pipeline.run(within=600)
    assert len({one.thread_id for one in pipeline.all(Message)}) == 1
    pipeline.check_at_rest()
    (folder / "3.mbox").write_bytes(mbox(mail("1", "The same id."), mail("4", headers=LATE)))
    pipeline.ingest(folder)
    pipeline.run(within=600)
    pipeline.check_at_rest()
    assert len({one.thread_id for one in pipeline.all(Message)}) == 1
