"""PDF and office attachments of mails are documents of their own, which come and go with their mail."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from email.message import EmailMessage
from pathlib import Path

import pytest

from onward import App, Permanent
from onward.pipeline.documents import MAX_REASONS, OTHER_REASONS, Archive, Chunk, Message, Thread, unread_keys
from onward.pipeline.fetch.office_formats import OLE_START
from onward.pipeline.read import attachments, message_reader
from onward.pipeline.read.mbox import RawMessage
from onward.pipeline.read.message_reader import ReadMessage
from onward.pipeline.search import Query, search
from onward.pipeline.sources import AttachmentCounts, attachment_counts, collect_blobs, submit
from onward.pipeline.stages import parsing, reading, thread_repair
from tests.pipeline.fetch.packing import zipped
from tests.support.attached_files import DOCX, PDF, docx, mail_with, pdf
from tests.support.pipeline_runs import Pipeline, mail, mbox

REPORT = ("report.pdf", PDF, pdf(["The estuary froze over."], "/Title (Winter report)"))
PLAN = ("plan.pdf", PDF, pdf(["Dredging begins in April."]))
BROKEN = ("broken.pdf", PDF, b"%PDF-1.4\nnothing more")


def write(archive: Path, *mails: EmailMessage | str) -> Path:
    archive.write_bytes(mbox(*(one if isinstance(one, str) else bytes(one) for one in mails)))
    return archive


def attached(pipeline: Pipeline) -> dict[str, Message]:
    """Messages of attachments by the names of their files."""
    return {one.attached_to.name: one for one in pipeline.all(Message) if one.attached_to is not None}


def attached_messages(pipeline: Pipeline) -> list[Message]:
    return [one for one in pipeline.all(Message) if one.attached_to is not None]


def files(pipeline: Pipeline) -> list[Archive]:
    return [one for one in pipeline.all(Archive) if one.attached_to is not None]


def test_search_finds_an_attachment_with_its_mail(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT, PLAN), mail("2", "Nothing attached.")))
    pipeline.check_at_rest()
    hit, *_ = search(pipeline.app, Query("estuary froze")).hits
    assert hit.message.subject == "Winter report (report.pdf)"
    about = hit.message.attached_to
    assert about is not None
    parent = pipeline.app.get(Message, about.message_id)
    assert parent is not None
    assert (about.subject, about.author, about.date) == ("The report", parent.author, parent.date)
    assert hit.message.thread_id == parent.thread_id
    assert [(one.name, one.read_apart, one.indexed) for one in parent.attachments] == [
        ("report.pdf", True, False),
        ("plan.pdf", True, False),
    ]
    assert hit.message.path == "1@example.org/report.pdf"
    assert {one.message.id for one in search(pipeline.app, Query("has:attachment froze")).hits} >= {hit.message.id}


def test_an_office_file_is_read_whatever_it_is_called(pipeline: Pipeline, archive: Path) -> None:
    pytest.importorskip("kreuzberg")
    plan = docx("Moorings are checked in May.")
    pipeline.ingest(write(archive, mail_with("1", ("plan.docx", DOCX, plan), ("plan", "application/zip", plan))))
    pipeline.check_at_rest()
    assert {one.body.strip() for one in attached_messages(pipeline)} == {"Moorings are checked in May."}
    assert {one.kind for one in attached_messages(pipeline)} == {"word"}
    hits = search(pipeline.app, Query("moorings kind:office")).hits
    assert len(hits) == 2


def test_attachments_are_counted_apart(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT, BROKEN), mail("2", "Hello.", references=["1"])))
    assert pipeline.report(archive)["messages"] == {"messages": 2, "parsed": 2, "failed": 0, "duplicates": 0}
    (counts,) = attachment_counts(pipeline.app, [pipeline.source(archive)]).values()
    assert (counts.total, counts.searchable, counts.failed) == (2, 1, 1)
    (thread,) = pipeline.all(Thread)
    assert thread.messages == 2


def test_the_summary_of_a_thread_covers_its_attachments(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT, body="See below.")))
    (thread,) = pipeline.all(Thread)
    assert set(thread.message_ids) == {one.id for one in pipeline.all(Message)}
    summary = pipeline.summary_of("1")
    assert summary is not None
    assert "estuary" in summary.markdown
    assert summary.messages == 1


def test_a_thread_waits_for_its_attachments(pipeline: Pipeline, archive: Path) -> None:
    pipeline.submit(write(archive, mail_with("1", REPORT)))
    pipeline.run("ingestion")
    assert pipeline.step("parsing")  # the mailbox
    pipeline.run("chunking", "embedding", "orchestration", "summarization")
    assert pipeline.summary_of("1") is None
    pipeline.run()
    pipeline.check_at_rest()


def test_an_attachment_that_cannot_be_read_fails_alone(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", BROKEN, REPORT)))
    states = {one.id: one for one in pipeline.world.store.states(Archive, limit=100)}
    (broken,) = [one for one in files(pipeline) if one.name == "broken.pdf"]
    assert states[broken.id].status == "failed"
    assert "damaged" in str(states[broken.id].last_error)
    assert pipeline.counts(archive)["messages"] == {"processed": 2}
    assert pipeline.summary_of("1") is not None, "its thread does not wait for it"


def test_ingesting_a_grown_mailbox_makes_no_attachment_again(pipeline: Pipeline, archive: Path) -> None:
    first = mail_with("1", REPORT, PLAN)
    pipeline.ingest(write(archive, first))
    before = pipeline.times("archives", "messages")
    ids = {one.id for one in files(pipeline)}
    pipeline.ingest(write(archive, first, mail("2", "A reply.", references=["1"])))
    pipeline.check_at_rest()
    assert {one.id for one in files(pipeline)} == ids
    after = pipeline.times("archives", "messages")
    assert {key: after[key] for key in before if key[1] in ids} == {
        key: before[key] for key in before if key[1] in ids
    }
    pipeline.ingest(archive)
    assert {one.id for one in files(pipeline)} == ids


def test_a_failed_attachment_is_read_again_by_the_next_submission(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", BROKEN)))
    (broken,) = files(pipeline)
    pipeline.ingest(archive)
    state = pipeline.world.store.state(Archive, broken.id)
    assert state is not None
    assert (state.status, state.round) == ("failed", 2)
    submit(pipeline.app, str(archive), retries_failed=False)  # as runs do that begin by themselves
    pipeline.run()
    state = pipeline.world.store.state(Archive, broken.id)
    assert state is not None
    assert (state.status, state.round) == ("failed", 2), "it would fail again in each of them"


def test_the_same_file_in_several_mails_is_stored_once(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT), mail_with("2", REPORT, body="Again.")))
    assert len({one.blob for one in files(pipeline)}) == 1
    assert len(files(pipeline)) == len(attached_messages(pipeline)) == 2
    assert pipeline.blobs() == 2  # the mailbox and the file


def test_two_files_of_one_name_and_content_in_a_mail_are_two_attachments(
    pipeline: Pipeline, archive: Path
) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT, REPORT)))
    assert {one.attached_to.number for one in attached_messages(pipeline) if one.attached_to} == {1, 2}


def test_an_attachment_goes_with_its_mail(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT), mail("2", "Stays.")))
    (blob,) = [str(one.blob) for one in files(pipeline)]
    pipeline.ingest(write(archive, mail("2", "Stays.")))
    pipeline.check_at_rest()
    assert (files(pipeline), attached_messages(pipeline)) == ([], [])
    assert pipeline.app.blobs.find(blob) is not None
    collect_blobs(pipeline.app, older_than=-60.0)
    assert pipeline.app.blobs.find(blob) is None


def test_forgetting_a_source_removes_its_attachments_and_their_bytes(pipeline: Pipeline, archive: Path) -> None:
    pipeline.ingest(write(archive, mail_with("1", REPORT, BROKEN)))
    pipeline.forget(archive)
    pipeline.check()
    assert (pipeline.all(Archive), pipeline.all(Message)) == ([], [])
    assert pipeline.blobs() == 0


def test_attachments_inside_a_forwarded_mail_count(pipeline: Pipeline, archive: Path) -> None:
    inner = mail_with("0", REPORT, subject="Inside")
    pipeline.ingest(write(archive, mail_with("1", forwarded=inner)))
    assert list(attached(pipeline)) == ["report.pdf"]


@pytest.mark.parametrize(
    ("name", "content_type", "content", "reason"),
    (
        ("all.zip", "application/zip", b"PK\x03\x04" + bytes(100), "zip archive: what is packed"),
        ("tune.mp3", "audio/mpeg", b"ID3" + bytes(100), "no reader"),
        ("fake.pdf", PDF, b"MZ" + bytes(100), "claims to be a PDF"),
        ("nothing.pdf", PDF, b"", "empty"),
        ("signature.asc", "application/pgp-signature", b"-----BEGIN PGP SIGNATURE-----", "a digital signature"),
    ),
)
def test_what_is_not_read_is_listed_with_its_reason(
    pipeline: Pipeline, archive: Path, name: str, content_type: str, content: bytes, reason: str
) -> None:
    pipeline.ingest(write(archive, mail_with("1", (name, content_type, content))))
    pipeline.check_at_rest()
    (entry,) = pipeline.messages()["1"].attachments
    assert reason in entry.not_read
    assert not entry.read_apart
    assert files(pipeline) == []
    assert pipeline.status(archive) == "completed"


ZIPS = [(name, "application/zip", zipped({"a.txt": b"text"})) for name in ("all.zip", "more.zip")]
NO_ZIP = "zip archive: what is packed in an attachment is not read"
NO_PDF = "claims to be a PDF, but its content is a web page"


def test_attachments_that_are_not_read_are_counted_by_reason(pipeline: Pipeline, archive: Path) -> None:
    first = mail_with("1", REPORT, ("nothing.bin", "image/x-raw", b""), *ZIPS)
    second = mail_with("2", ZIPS[0], ("page.pdf", PDF, b"<html><body>Not found</body></html>"), body="Again.")

    def counts() -> AttachmentCounts | None:
        return attachment_counts(pipeline.app, [pipeline.source(archive)]).get(pipeline.source(archive))

    pipeline.ingest(write(archive, first, second))
    found = counts()
    assert found is not None
    assert (found.total, found.searchable, found.not_read) == (6, 1, 5)
    assert next(iter(found.reasons.items())) == (NO_ZIP, 3)
    assert {reason.partition(":")[0]: count for reason, count in found.reasons.items()} == {
        "zip archive": 3,
        "it is empty": 1,
        NO_PDF: 1,
    }
    pipeline.ingest(write(archive, first, second, mail("3", "Nothing attached.")))
    assert counts() == found
    pipeline.ingest(write(archive, first))
    found = counts()
    assert found is not None
    assert (found.total, found.searchable, found.not_read) == (4, 1, 3)
    assert found.reasons == {NO_ZIP: 2, "it is empty": 1}
    pipeline.ingest(write(archive, mail_with("1", ZIPS[0])))
    assert counts() == AttachmentCounts(total=1, not_read=1, reasons={NO_ZIP: 1})
    pipeline.ingest(write(archive, mail("4", "Nothing attached.")))
    assert counts() is None


def test_attachments_over_the_limit_of_a_mail_are_counted(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_PER_MAIL", 1)
    pipeline.ingest(write(archive, mail_with("1", REPORT, PLAN, PLAN)))
    (counts,) = attachment_counts(pipeline.app, [pipeline.source(archive)]).values()
    assert (counts.total, counts.searchable, counts.not_read) == (3, 1, 2)


def test_few_reasons_are_counted_for_one_mail() -> None:
    reasons = [f"reason {number}" for number in range(MAX_REASONS + 5)]
    (_, *found) = unread_keys("s", [*reasons, reasons[0]])
    assert found[0] == ("unread_reason", "2 reason 0")
    assert found[-1] == ("unread_reason", f"5 {OTHER_REASONS}")
    assert unread_keys("s", []) == []


def _cut_off(book: bytes) -> bytes:
    return book[:-14]


def _encrypted(book: bytes) -> bytes:
    data = bytearray(book)
    data[6] |= 1
    data[data.find(b"PK\1\2") + 8] |= 1
    return bytes(data)


def _undecodable(book: bytes) -> bytes:
    start = 30 + len("mimetype")
    return book[:start] + b"\xff" * 6 + book[start + 6 :]


@pytest.mark.parametrize("damage", (_cut_off, _encrypted, _undecodable))
@pytest.mark.parametrize("name", ("book.epub", "book"))
def test_a_damaged_zip_that_claims_to_be_an_office_file_fails_alone(
    pipeline: Pipeline, archive: Path, damage: Callable[[bytes], bytes], name: str
) -> None:
    book = zipped({"mimetype": b"application/epub+zip" * 50, "a.xhtml": b"text"})
    pipeline.ingest(write(archive, mail_with("1", (name, "application/epub+zip", damage(book)), REPORT)))
    pipeline.check_at_rest()
    states = {one.id: one for one in pipeline.world.store.states(Archive, limit=100)}
    (broken,) = [one for one in files(pipeline) if one.name == name]
    assert states[broken.id].status == "failed"
    assert "damaged" in str(states[broken.id].last_error)
    (counts,) = attachment_counts(pipeline.app, [pipeline.source(archive)]).values()
    assert (counts.total, counts.searchable, counts.failed) == (2, 1, 1)
    assert pipeline.report(archive)["messages"]["failed"] == 0


@pytest.mark.parametrize(
    ("name", "content_type", "content", "reason"),
    (
        ("all.zip", "application/zip", b"PK\x03\x04" + bytes(100), NO_ZIP),
        ("plan.docx", DOCX, zipped({"a.txt": b"text"}), "its content is a zip archive of other files"),
        ("plan.doc", "application/msword", OLE_START + bytes(100), "its content is another OLE file"),
    ),
)
def test_what_is_no_office_file_is_listed_with_its_reason(
    name: str, content_type: str, content: bytes, reason: str
) -> None:
    raw = bytes(mail_with("1", (name, content_type, content)))
    mailbox = Archive(id="a", source="s", source_id="i")
    (entry,) = message_reader.read_message(mailbox, "m", RawMessage(0, len(raw), raw)).message.attachments
    assert reason in entry.not_read


def test_what_is_over_the_limit_of_a_mail_is_listed_with_its_reason(tmp_path: Path, archive: Path) -> None:
    size = len(REPORT[2])
    with Pipeline(tmp_path / "home", ONWARD_ATTACHMENTS_MAX_BYTES=str(size + 1)).running() as pipeline:
        pipeline.ingest(write(archive, mail_with("1", REPORT, PLAN)))
        assert list(attached(pipeline)) == ["report.pdf"]
        _, plan = pipeline.messages()["1"].attachments
        assert "ONWARD_ATTACHMENTS_MAX_BYTES" in plan.not_read


def test_a_mail_says_what_of_its_attached_text_is_not_searched(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(message_reader, "MAX_CHARACTERS", 40)
    log = ("tide.log", "text/plain", b"The ebb. " * 3 + b"The flood.")
    pipeline.ingest(write(archive, mail_with("1", log), mail("2", "Nothing attached.")))
    assert pipeline.messages()["1"].defects == [
        "attached text is searched up to 40 characters; all of it is in the archive"
    ]
    assert pipeline.messages()["2"].defects == []


def test_no_mail_has_more_attachments_that_are_read_than_one_work_may_add(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attachments, "MAX_PER_MAIL", 2)
    pipeline.ingest(write(archive, mail_with("1", REPORT, PLAN, BROKEN)))
    assert set(attached(pipeline)) == {"report.pdf", "plan.pdf"}
    *_, third = pipeline.messages()["1"].attachments
    assert third.not_read == "the mail has more than 2 attachments; the first ones are read"


def test_many_attachments_of_one_mailbox_are_committed_in_parts(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(parsing, "CHECKPOINT_ATTACHMENTS", 3)
    mails = [mail_with(str(n), REPORT, PLAN, body=f"Number {n}.") for n in range(6)]
    with pipeline.crashing_after_checkpoint(2):
        pipeline.ingest(write(archive, *mails))
    pipeline.run()
    pipeline.check_at_rest()
    assert Counter(one.name for one in files(pipeline)) == {"report.pdf": 6, "plan.pdf": 6}
    for n in range(6):
        found = search(pipeline.app, Query(f'"number {n}"')).hits
        assert [one.message.body.strip() for one in found] == [f"Number {n}."]
    assert pipeline.report(archive)["messages"] == {"messages": 6, "parsed": 6, "failed": 0, "duplicates": 0}


def test_a_pdf_that_is_sent_as_text_is_read_as_a_pdf(pipeline: Pipeline, archive: Path) -> None:
    text = mail_with("1", REPORT).as_bytes().replace(b"application/pdf", b"text/plain")
    assert b"Content-Type: text/plain\nContent-Transfer-Encoding: base64" in text
    archive.write_bytes(mbox(text))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    assert "estuary froze" in attached(pipeline)["report.pdf"].body


def test_an_attachment_moves_with_its_mail_to_another_thread(pipeline: Pipeline, archive: Path) -> None:
    reply = mail_with("2", REPORT, references=["1"])
    pipeline.ingest(write(archive, reply))
    first = attached(pipeline)["report.pdf"].thread_id
    # The mail that it answers belongs to an older thread, as is seen when that mail comes.
    pipeline.ingest(write(archive, reply, mail("1", "An answer.", references=["0"])))
    pipeline.check_at_rest()
    (moved,), (file,) = attached(pipeline).values(), files(pipeline)
    parent = pipeline.app.get(Message, str(moved.attached_to and moved.attached_to.message_id))
    assert parent is not None
    assert file.attached_to is not None
    assert moved.attached_to is not None
    assert parent.thread_id != first
    threads = {parent.thread_id, moved.thread_id, moved.attached_to.thread_id, file.attached_to.thread_id}
    threads |= {chunk.thread_id for chunk in pipeline.all(Chunk)}
    assert threads == {thread.id for thread in pipeline.all(Thread)} == {parent.thread_id}
    assert search(pipeline.app, Query("estuary froze")).hits[0].message.thread_id == parent.thread_id


def test_a_thread_that_is_repaired_while_its_attachment_is_read(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(thread_repair, "MAX_WAIT_SECONDS", 0.0)
    write(folder / "a.mbox", mail_with("2", REPORT, references=["1"]))
    pipeline.submit(folder)
    pipeline.run("ingestion")
    assert pipeline.step("parsing")  # the mailbox
    write(folder / "b.mbox", mail("1", "An answer.", references=["0"]))
    pipeline.submit(folder)
    pipeline.run("ingestion")
    (file,) = files(pipeline)
    with pipeline.meanwhile("parsing", lambda: pipeline.run("parsing", "chunking", "parsing.threads")):
        assert pipeline.step("parsing")  # the attachment
    (moved,) = files(pipeline)
    assert moved.attached_to is not None
    assert file.attached_to is not None
    assert moved.attached_to.thread_id != file.attached_to.thread_id, "it was moved while it was read"
    pipeline.run(within=3_600)
    pipeline.check_at_rest()
    (thread,) = pipeline.all(Thread)
    assert {one.thread_id for one in pipeline.all(Message)} == {thread.id}
    assert {one.thread_id for one in pipeline.all(Chunk)} == {thread.id}
    assert set(thread.message_ids) == {one.id for one in pipeline.all(Message)}


def test_a_failed_mail_that_is_read_again_gets_its_attachments_and_its_thread(
    pipeline: Pipeline, archive: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = reading.try_reading

    def fail(app: App, archive: Archive, id: str, raw: RawMessage) -> ReadMessage | Permanent:
        return Permanent("a fault") if b"See below." in raw.raw else real(app, archive, id, raw)

    answered = mail_with("2", REPORT, references=["1"], body="See below.")
    with monkeypatch.context() as broken:
        broken.setattr(parsing, "try_reading", fail)
        pipeline.ingest(write(archive, mail("1"), answered, mail("3", "Three.", references=["2"])))
    (state,) = pipeline.world.store.states(Message, status="failed")
    assert files(pipeline) == []
    pipeline.world.store.reset("messages", state.id)
    pipeline.run(within=7_200)
    pipeline.check_at_rest()
    assert list(attached(pipeline)) == ["report.pdf"]
    (thread,) = pipeline.all(Thread)
    assert {one.thread_id for one in pipeline.all(Message)} == {thread.id}
    assert search(pipeline.app, Query("see below")).hits
    assert search(pipeline.app, Query("estuary froze")).hits
