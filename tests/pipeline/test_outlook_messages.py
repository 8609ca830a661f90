"""A .msg file of Outlook is a mail: with its thread, its people, its attachments, and its defects."""

from __future__ import annotations

import io
import json
import struct
import tracemalloc
from base64 import b64encode
from datetime import UTC, datetime
from pathlib import Path
from random import Random

import pytest
from olefile import OleFileIO

from onward import Permanent
from onward.ops.queries.ingestion_report import read_ingestion_report
from onward.pipeline.documents import Archive, Message
from onward.pipeline.fetch.compressed_rtf import MAX_BYTES, BrokenRTF, unpacked_rtf
from onward.pipeline.fetch.fetch_errors import Broken
from onward.pipeline.fetch.mapi_mail import MAX_DEPTH
from onward.pipeline.fetch.outlook_message import _Message, outlook_mail
from onward.pipeline.read.mail import Mail, read_mail
from tests.support.command_runs import onward_process
from tests.support.format_samples import SENTENCES, samples
from tests.support.outlook_files import OutlookMessage, Value, msg, ole_file
from tests.support.pipeline_runs import Pipeline, mail, mbox

TEXT = "The oystercatcher opens the shell."
HEADERS = (
    "Received: from harbour.example (harbour.example [192.0.2.1])\r\n"
    "\tby mx.example; Mon, 2 Mar 2026 10:00:05 +0000\r\n"
    "From: Ada Quill <ada@example.org>\r\nTo: list@example.org\r\nSubject: Re: A question\r\n"
    "Date: Mon, 2 Mar 2026 10:00:00 +0000\r\nMessage-ID: <2@example.org>\r\nReferences: <1@example.org>\r\n"
    'Content-Type: multipart/mixed; boundary="gone"\r\nMIME-Version: 1.0\r\n\r\n'
)
# The example of the specification (MS-OXRTFCP, 4.1).
RTF = "2d0000002b0000004c5a4675f1c5c7a703000a007263706731323542320af32068656c090020627705b06c647d0a800fa0"


def about(**values: Value) -> dict[int, Value]:
    """Return properties that most messages have."""
    given: dict[int, Value] = {0x0037: "A question", 0x1000: TEXT, 0x0C1A: "Ada Quill", 0x5D01: "ada@example.org"}
    return given | {int(number[1:], 16): value for number, value in values.items()}


def read(message: OutlookMessage) -> Mail:
    return read_mail(outlook_mail(msg(message), "a.msg"))


def test_a_received_message_joins_its_thread_with_its_attachments(pipeline: Pipeline, folder: Path) -> None:
    (folder / "list.mbox").write_bytes(mbox(mail("1")))
    tide: dict[int, Value] = {0x3707: "tide.docx", 0x3701: samples()["a.docx"]}
    big: dict[int, Value] = {0x3707: "big.bin", 0x3701: b"\0" * 9_000}
    (folder / "reply.msg").write_bytes(msg(OutlookMessage(about(x007D=HEADERS), attachments=(tide, big))))
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    found = pipeline.messages()
    reply = found["2"]
    assert (reply.kind, reply.body.strip(), reply.subject) == ("eml", TEXT, "Re: A question")
    assert (reply.author, reply.date) == ("Ada Quill <ada@example.org>", 1772445600.0)
    assert reply.thread_id == found["1"].thread_id
    assert [(one.name, one.read_apart) for one in reply.attachments] == [("tide.docx", True), ("big.bin", False)]
    (word,) = [one for one in pipeline.all(Message) if one.kind == "word"]
    assert SENTENCES["a.docx"] in word.body
    assert word.thread_id == reply.thread_id


def test_a_message_without_headers_has_those_of_its_properties() -> None:
    people: tuple[dict[int, Value], ...] = (
        {0x3001: "Bo Ågren", 0x39FE: "bo@example.org", 0x0C15: 1},
        {0x3001: "Cy", 0x3003: "/O=HARBOUR/CN=CY", 0x0C15: 1},
        {0x3001: "Di", 0x3003: "di@example.org", 0x0C15: 2},
    )
    sent = datetime(2026, 3, 2, 10, tzinfo=UTC)
    values = about(
        x0037="Tide – tables",
        x0039=sent,
        x1035="<9@example.org>",
        x1039="<7@example.org>",
        x1042="<8@example.org>",
    )
    found = read(OutlookMessage(values, people))
    assert (found.author, found.author_email, found.subject) == ("Ada Quill", "ada@example.org", "Tide – tables")
    assert found.recipients == ("bo@example.org", "di@example.org")
    assert (found.message_id, found.references) == ("9@example.org", ("7@example.org", "8@example.org"))
    assert (found.date, found.body.strip(), found.defects) == (sent.timestamp(), TEXT, ())


def test_strings_of_an_old_message_are_in_its_code_page() -> None:
    values: dict[int, Value] = {0x0037: "Прилив", 0x1000: "Чайка летит.", 0x0C1A: "Ада", 0x3FFD: 1251}
    attached: dict[int, Value] = {0x3707: "прилив.txt", 0x3701: b"x"}
    found = read(OutlookMessage(values, attachments=(attached,), ansi="cp1251"))
    assert (found.subject, found.body.strip(), found.author) == ("Прилив", "Чайка летит.", "Ада")
    assert [one.name for one in found.attachments] == ["прилив.txt"]


def test_a_message_that_has_only_html_is_read_in_its_code_page() -> None:
    values = about(x1000="", x1013="<p>Der Möwenflug</p>".encode("cp1252"), x3FDE=1252)
    assert read(OutlookMessage(values)).body.strip() == "Der Möwenflug"


def test_a_text_that_is_only_rtf_is_read_as_an_attached_document(pipeline: Pipeline, folder: Path) -> None:
    rtf = samples()["a.rtf"]
    stored = struct.pack("<II4sI", len(rtf) + 12, len(rtf), b"MELA", 0) + rtf
    (folder / "a.msg").write_bytes(msg(OutlookMessage(about(x1000="", x1009=stored))))
    pipeline.ingest(folder)
    (word,) = [one for one in pipeline.all(Message) if one.kind == "word"]
    assert SENTENCES["a.rtf"] in word.body


def test_compressed_rtf_is_the_example_of_its_specification() -> None:
    assert unpacked_rtf(bytes.fromhex(RTF)) == b"{\\rtf1\\ansi\\ansicpg1252\\pard hello world}\r\n"
    with pytest.raises(BrokenRTF):
        unpacked_rtf(b"\0" * 40)


@pytest.mark.parametrize(
    ("stored", "why"),
    (
        (struct.pack("<II4sI", 0, MAX_BYTES + 1, b"LZFu", 0) + b"\0" * 40, f"it has {MAX_BYTES + 1} bytes"),
        (b"\0" * 40, "it is of an unknown kind"),
    ),
)
def test_a_text_that_is_only_rtf_and_cannot_be_unpacked_says_so(stored: bytes, why: str) -> None:
    (note,) = read(OutlookMessage(about(x1000="", x1009=stored))).attachments
    assert note.name == "message.rtf.txt"
    assert f"The text of this mail is RTF that cannot be read: {why}" in (note.text or "")


def test_messages_are_nested_up_to_a_limit() -> None:
    message = OutlookMessage(about(x0037="Level 9", x1000="Text 9"))
    for level in reversed(range(9)):
        message = OutlookMessage(about(x0037=f"Level {level}", x1000=f"Text {level}"), attachments=(message,))
    found = read(message)
    texts = "\n".join((found.body, *(one.text or "" for one in found.attachments)))
    assert [level for level in range(10) if f"Text {level}" in texts] == list(range(MAX_DEPTH + 1))


def test_streams_that_overlap_are_read_no_further_than_the_size_of_the_file() -> None:
    data = msg(OutlookMessage(about(x1000="x" * 5_000)))
    with OleFileIO(io.BytesIO(data)) as file, pytest.raises(ValueError, match="its streams overlap"):
        _Message(file, 5_000).item([], "item", 0)


def looped(stream: str, size: int) -> bytes:
    """A message whose stream or directory entry has this size, and whose first sector follows itself."""
    file = bytearray(msg(OutlookMessage(about(x1000="x" * 5_000))))
    entry = file.find(stream.encode("utf-16-le") + b"\0\0")
    (sector,) = struct.unpack_from("<I", file, entry + 116)
    (fat,) = struct.unpack_from("<I", file, 76)
    struct.pack_into("<I", file, 512 * (fat + 1) + 4 * sector, sector)
    struct.pack_into("<I", file, entry + 120, size)
    return bytes(file)


def many_tables() -> bytes:
    """A message whose list of tables of sectors follows itself."""
    file = bytearray(msg(OutlookMessage(about())))
    count, itself = 2_000, len(file) // 512 - 1
    struct.pack_into("<I", file, 44, 109 + 127 * count)
    struct.pack_into("<II", file, 68, itself, count)
    return bytes(file) + struct.pack("<128I", *[0] * 127, itself)


@pytest.mark.parametrize(
    "damaged",
    (looped("__substg1.0_1000001F", 1 << 25), looped("Root Entry", 1 << 25), many_tables()),
    ids=("stream", "small streams", "tables"),
)
def test_a_message_whose_sectors_form_a_loop_takes_no_memory(damaged: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(Broken, match=r"'a.msg' is a damaged Outlook message"):
            outlook_mail(damaged, "a.msg")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2_000_000


def test_a_message_that_needs_too_much_memory_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def read(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(_Message, "item", read)
    with pytest.raises(Broken, match=r"'a.msg' is a damaged Outlook message \(MemoryError\)"):
        outlook_mail(msg(OutlookMessage(about())), "a.msg")


def test_a_message_that_is_attached_to_another_is_read_with_it() -> None:
    inner = OutlookMessage(about(x0037="Inner", x1000="The dunlin is inside."))
    found = read(OutlookMessage(about(), attachments=(inner,)))
    assert [one.name for one in found.attachments] == ["Inner"]
    assert "The dunlin is inside." in (found.attachments[0].text or "")


def test_the_text_of_a_signed_message_is_read() -> None:
    part = f"--b\r\nContent-Type: text/plain\r\n\r\n{TEXT}\r\n--b--\r\n"
    signed = f'Content-Type: multipart/signed; boundary="b"\r\n\r\n{part}'.encode()
    attached: dict[int, Value] = {0x3707: "smime.p7m", 0x370E: "multipart/signed", 0x3701: signed}
    found = read(OutlookMessage(about(x1000=""), attachments=(attached,)))
    assert (found.body.strip(), found.subject, found.attachments) == (TEXT, "A question", ())


def test_the_same_message_is_the_same_mail_and_headers_cannot_be_added() -> None:
    data = msg(OutlookMessage(about(x0037="A\r\nBcc: eve@example.org\r\n\r\nB")))
    assert outlook_mail(data, "a.msg") == outlook_mail(data, "b.msg")
    assert b"\nBcc:" not in outlook_mail(data, "a.msg")
    assert read_mail(outlook_mail(data, "a.msg")).subject == "A Bcc: eve@example.org B"


def test_a_damaged_message_fails_alone_and_says_what_to_do(pipeline: Pipeline, folder: Path) -> None:
    (folder / "good.msg").write_bytes(msg(OutlookMessage(about())))
    (folder / "bad.msg").write_bytes(msg(OutlookMessage(about()))[:2100])
    inner = {"__properties_version1.0": b""}
    (folder / "none.msg").write_bytes(ole_file({"Storage": inner}))
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    report = read_ingestion_report(pipeline.app, pipeline.source(folder), {})
    assert [one.path for one in pipeline.all(Archive) if one.kind == "eml"] == ["good.msg"]
    errors = [one.error for one in report.troubles]
    assert sum(one.count for one in report.troubles) == 2, errors
    assert all("damaged Outlook message" in one and "save it again" in one for one in errors)


def test_a_message_that_is_attached_to_a_mail_as_a_file_says_why_it_is_not_read(
    pipeline: Pipeline, archive: Path
) -> None:
    content = b64encode(msg(OutlookMessage(about()))).decode()
    media = "application/vnd.ms-outlook; name=a.msg"
    part = f"--b\nContent-Type: {media}\nContent-Transfer-Encoding: base64\n\n{content}\n"
    headers = 'MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary="b"\n'
    archive.write_bytes(mbox(mail("1", f"{part}--b--", headers=headers)))
    pipeline.ingest(archive)
    (message,) = pipeline.all(Message)
    assert [one.not_read for one in message.attachments] == ["mail that is attached as a file is not read"]


def test_no_damaged_message_ends_in_another_error() -> None:
    inner = OutlookMessage(about(x0037="Inner"))
    attached: dict[int, Value] = {0x3707: "a.txt", 0x3701: b"x" * 5_000}
    whole = msg(OutlookMessage(about(x007D=HEADERS), attachments=(attached, inner)))
    random, outcomes = Random(14), {"read": 0, "failed": 0}
    for number in range(400):
        file = bytearray(whole)
        for _ in range((1, 3, 30)[number % 3]):
            file[random.randrange(len(file))] ^= 1 << random.randrange(8)
        try:
            read_mail(outlook_mail(file[: random.randrange(1, len(file))] if number % 4 == 0 else file, "a.msg"))
        except Permanent:
            outcomes["failed"] += 1
        else:
            outcomes["read"] += 1
    assert min(outcomes.values()) > 20


@pytest.mark.prove
def test_a_message_is_found_by_the_command(tmp_path: Path) -> None:
    folder, home = tmp_path / "folder", tmp_path / "home"
    folder.mkdir()
    (folder / "a.msg").write_bytes(msg(OutlookMessage(about(x007D=HEADERS))))
    done = onward_process(home, "ingest", str(folder), "--processes", "1", "--json")
    (report,) = json.loads(done.stdout)["sources"]
    assert (report["status"], report["messages"]["parsed"]) == ("completed", 1)
    hits = json.loads(onward_process(home, "search", "from:ada oystercatcher", "--json").stdout)
    assert [hit["subject"] for hit in hits["results"]] == ["Re: A question"]
