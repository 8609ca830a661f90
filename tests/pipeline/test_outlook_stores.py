"""A data file of Outlook is a mailbox; what is wrong with it is said, and never harms a worker.

No free program writes such a file. Where the content matters, `tests/support/store_library` stands in for libpff;
libpff itself is given files that are damaged.
"""

from __future__ import annotations

import gzip
import json
import re
from itertools import count
from pathlib import Path
from random import Random
from typing import Any

import pytest

from onward.ops.queries.ingestion_report import read_ingestion_report
from onward.pipeline.documents import Archive, Message
from onward.pipeline.fetch import outlook_store
from onward.pipeline.sources import fetch_report
from tests.support.pipeline_runs import Pipeline, mail, mbox

LIBRARY = Path(__file__).parents[1] / "support" / "store_library"
TEXT = "The oystercatcher opens the shell."
_ids = count(1)


@pytest.fixture
def library(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the process that reads data files find the library that stands in."""
    monkeypatch.setenv("PYTHONPATH", str(LIBRARY))


def text(value: str) -> tuple[str, str]:
    return "text", value.encode("utf-16-le").hex()


def item(subject: str = "\1\1A question", *, id: str = "", kind: str = "IPM.Note", **more: Any) -> dict[str, Any]:
    properties = {
        "1a": text(kind), "37": text(subject), "1000": text(TEXT), "c1a": text("Ada Quill"),
        "5d01": text("ada@example.org"), "1035": text(f"<{id}@example.org>" if id else ""),
        **more.pop("properties", {}),
    }  # fmt: skip
    return {"id": next(_ids), "properties": properties, **more}


def folder_of(name: str, *messages: dict[str, Any], folders: tuple[dict[str, Any], ...] = ()) -> dict[str, Any]:
    return {"id": next(_ids), "name": name, "messages": messages, "folders": folders}


def store_file(*folders: dict[str, Any]) -> bytes:
    return b"!BDN" + json.dumps(folder_of("", folders=folders)).encode()


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize("packed", (False, True))
def test_mails_of_all_folders_join_their_threads(packed: bool, pipeline: Pipeline, folder: Path) -> None:
    (folder / "list.mbox").write_bytes(mbox(mail("1")))
    attached = {"id": next(_ids), "properties": {"3707": text("log.txt")}, "data": b"The log.".hex()}
    inner = {"id": next(_ids), "items": [item("Inner")]}
    people = [{"3001": text("Bo"), "39fe": text("bo@example.org"), "c15": ("number", "01000000")}]
    reply = item(
        id="2", properties={"1042": text("<1@example.org>")}, attachments=[attached, inner], recipients=people
    )
    data = store_file(folder_of("Inbox", reply, folders=(folder_of("Project", item(id="3")),)))
    if packed:
        (folder / "mails.pst.gz").write_bytes(gzip.compress(data))
    else:
        (folder / "mails.pst").write_bytes(data)
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    found = pipeline.messages()
    assert set(found) == {"1", "2", "3"}
    two = found["2"]
    assert (two.kind, two.body.strip(), two.subject) == ("mbox", TEXT, "A question")
    assert (two.author, two.recipients) == ("Ada Quill <ada@example.org>", ["bo@example.org"])
    assert two.thread_id == found["1"].thread_id
    assert [one.name for one in two.attachments] == ["log.txt", "Inner"]


@pytest.mark.usefixtures("library")
def test_what_is_no_mail_or_is_damaged_is_passed_over_and_counted(pipeline: Pipeline, folder: Path) -> None:
    same = item(id="1")
    days = [item(f"Day {n}", kind="IPM.Appointment") for n in range(120)]
    calendar = folder_of("Calendar", *days, days[0])
    inbox = folder_of("Inbox", same, {"id": next(_ids), "fault": "damaged"}, same, item(id="2"))
    (folder / "mails.ost").write_bytes(store_file(inbox, calendar))
    pipeline.ingest(folder)
    report = fetch_report(pipeline.app, pipeline.source(folder))
    assert report is not None
    assert report.passed_over == {"outlook": 120, "damaged": 1}
    listed = {one.path: one.reason for one in report.passed_over_items}
    assert "no mail" in listed["mails.ost/Calendar/1 Day 0"]
    assert "a damaged mail, attachment or folder" in listed["mails.ost/Inbox/2"]
    assert set(pipeline.messages()) == {"1", "2"}


@pytest.mark.usefixtures("library")
def test_a_damaged_attachment_is_counted_and_its_mail_is_read(pipeline: Pipeline, folder: Path) -> None:
    name = {"3707": text("a.txt")}
    damaged = {"id": next(_ids), "properties": name, "data": "00", "fault": "damaged"}
    fine = {"id": next(_ids), "properties": name, "data": b"The dunlin.".hex()}
    (folder / "mails.pst").write_bytes(store_file(folder_of("Inbox", item(id="1", attachments=[damaged, fine]))))
    pipeline.ingest(folder)
    mail = pipeline.messages()["1"]
    assert mail.body.strip() == TEXT
    assert [one.name for one in mail.attachments] == ["attachment 1.txt", "a.txt"]
    report = fetch_report(pipeline.app, pipeline.source(folder))
    assert report is not None
    assert report.passed_over == {"damaged": 1}
    assert [one.path for one in report.passed_over_items] == ["mails.pst/Inbox/1 attachment 1"]


@pytest.mark.usefixtures("library")
@pytest.mark.parametrize(
    ("fault", "error"),
    (
        ("crash", "is damaged .its reader has ended with SIGSEGV.: repair it .* export it as mbox"),
        ("hang", "is damaged: its reader found no mail for 2 s; repair it .* export it as mbox"),
        ("memory", "takes more than 2,000,000,000 bytes of memory: .* export it as mbox"),
    ),
)
def test_a_fault_of_the_library_is_one_failed_file(
    fault: str, error: str, pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook_store, "STALL_SECONDS", 2.0)
    (folder / "mails.pst").write_bytes(store_file(folder_of("Inbox", {"id": next(_ids), "fault": fault})))
    check_failure(pipeline, folder, error)


@pytest.mark.parametrize(
    ("data", "error"),
    (
        (b"!BDN" + b"0" * 1_000, "'mails.pst' is damaged .unsupported content type"),
        (b"!BDN" + Random(1).randbytes(60_000), "'mails.pst' is damaged"),
        (b"!BDN", "'mails.pst' is damaged"),
        (b"Just text.", "'mails.pst' claims to be a data file of Outlook, but its content is something else"),
    ),
)
def test_a_file_that_libpff_cannot_open_says_what_to_do(
    data: bytes, error: str, pipeline: Pipeline, folder: Path
) -> None:
    pytest.importorskip("pypff")
    (folder / "mails.pst").write_bytes(data)
    check_failure(pipeline, folder, error)


def test_without_libpff_the_file_fails_with_both_remedies(
    pipeline: Pipeline, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(outlook_store, "find_spec", lambda _: None)
    (folder / "mails.pst").write_bytes(store_file())
    check_failure(pipeline, folder, r"pip install 'onward\[formats\]' .* or export it as mbox, .* readpst")


@pytest.mark.usefixtures("library")
def test_a_store_without_a_mail_is_a_failure_that_says_so(pipeline: Pipeline, folder: Path) -> None:
    others = [{"id": next(_ids), "fault": "damaged"}, item(kind="IPM.Contact"), item(kind="IPM.Task")]
    (folder / "mails.pst").write_bytes(store_file(folder_of("Inbox", *others)))
    check_failure(
        pipeline, folder, "'mails.pst' has no mail that can be read .1 damaged, 2 others that are no mails."
    )


def check_failure(pipeline: Pipeline, folder: Path, error: str) -> None:
    (folder / "note.txt").write_text("A note.")
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    (trouble,) = read_ingestion_report(pipeline.app, pipeline.source(folder), {}).troubles
    assert trouble.count == 1
    assert re.search(error, trouble.error), trouble.error
    assert [one.path for one in pipeline.all(Message)] == ["note.txt"]
    assert all(one.kind != "mbox" or one.size == 0 for one in pipeline.all(Archive))
