"""Whatever a source holds is taken, failed, passed over or ignored: nothing vanishes, and all counts agree."""

from __future__ import annotations

import gzip
import io
import zipfile
from pathlib import Path

import pytest

from onward.model.documents import Document
from onward.ops.queries.ingestion_report import archive_counts, read_ingestion_report
from onward.ops.queries.status import read_status
from onward.pipeline.app import build
from onward.pipeline.documents import Archive, Report, source_id
from onward.pipeline.fetch import FetchLimits, fetch
from onward.pipeline.fetch.fetched_items import (
    LISTED_BYTES,
    LISTED_PER_KIND,
    SkippedFiles,
    SkipReason,
)
from onward.pipeline.sources import fetch_report, submit
from onward.settings import load_settings
from tests.support.pipeline_runs import Pipeline, mail, mbox

PNG = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR"
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1\0"


def zipped(members: dict[str, bytes]) -> bytes:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return packed.getvalue()


DOCX = zipped({"[Content_Types].xml": b"<Types/>"})


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "postgres":
        return str(request.getfixturevalue("postgres_store_url"))
    return f"sqlite:///{tmp_path / 'onward.db'}"


def fill(folder: Path) -> None:
    """A folder with something of every kind, one text of which is taken and one of which fails."""
    (folder / "note.txt").write_text("A note about the harbour.")
    (folder / "report.vsdx").write_bytes(DOCX)
    (folder / "table.numbers").write_bytes(DOCX)
    (folder / "old.pub").write_bytes(OLE)
    (folder / "quay.png").write_bytes(PNG)
    (folder / "empty.md").write_bytes(b"")
    (folder / "nothing.txt.gz").write_bytes(gzip.compress(b""))
    (folder / "empty.zip").write_bytes(zipped({}))
    (folder / "packed.7z").write_bytes(b"7z\xbc\xaf\x27\x1c\0")
    (folder / "data.bin").write_bytes(b"\0\1\2")
    inner = zipped({"slides.odg": DOCX, "inner.txt": b"An inner text.", "nil.zip": zipped({})})
    (folder / "outer.zip").write_bytes(zipped({"inner.zip": inner, "pier.jpg": b"\xff\xd8\xff\0"}))
    (folder / "broken.gz").write_bytes(b"\x1f\x8b\x08\x00 no archive")
    (folder / "away").symlink_to("/nowhere/at/all")
    (folder / ".gitignore").write_text("*.log\nbuild/\n")
    (folder / "run.log").write_text("x")
    (folder / "build").mkdir()
    (folder / "build" / "made.txt").write_text("x")
    (folder / "node_modules").mkdir()


KINDS = {"office": 4, "empty": 4, "picture": 2, "archive": 1, "binary": 1, "link": 1}
IGNORED = {"gitignore": 2, "hidden": 1, "tools": 1}
REASONS = {
    "report.vsdx": "office",
    "table.numbers": "office",
    "old.pub": "office",
    "outer.zip/inner.zip/slides.odg": "office",
    "quay.png": "picture",
    "outer.zip/pier.jpg": "picture",
    "empty.md": "empty",
    "nothing.txt.gz": "empty",
    "empty.zip": "empty",
    "outer.zip/inner.zip/nil.zip": "empty",
    "packed.7z": "archive",
    "data.bin": "binary",
    "away": "link",
}


def test_every_item_of_a_folder_is_accounted_for(tmp_path: Path, folder: Path, store: str) -> None:
    fill(folder)
    about = {"ONWARD_HOME": str(tmp_path / "home"), "ONWARD_STORE": store, "ONWARD_OCR": "off"}
    app = build(load_settings(about))
    try:
        source = submit(app, str(folder)).source
        app.work_until_idle()
        facts = read_ingestion_report(app, source, {}).as_dict()
        (standing,) = read_status(app).sources
    finally:
        app.close()
    assert facts["items"]["items"] == 3, "two texts, and one that failed"
    assert facts["items"]["failed"] == 1
    assert facts["passed_over"]["kinds"] == KINDS
    assert {one["path"]: one["kind"] for one in facts["passed_over"]["items"]} == REASONS
    assert all(one["reason"] for one in facts["passed_over"]["items"])
    assert facts["passed_over"]["not_listed"] == 0
    assert facts["ignored"] == {"total": 4, "kinds": IGNORED}
    assert standing["passed_over"] == {"total": 13, "kinds": KINDS}
    assert standing["ignored"] == facts["ignored"]


def test_the_account_is_committed_with_the_end_of_the_fetch(pipeline: Pipeline, folder: Path) -> None:
    fill(folder)
    pipeline.submit(folder)
    source = pipeline.source(folder)

    def look_meanwhile() -> None:
        assert fetch_report(pipeline.app, source) is None

    with pipeline.meanwhile("ingestion", look_meanwhile):
        pipeline.run("ingestion")
    report = fetch_report(pipeline.app, source)
    assert report is not None
    assert report.passed_over == KINDS


def test_a_folder_that_holds_nothing_to_take_fails_and_is_accounted_for(pipeline: Pipeline, folder: Path) -> None:
    (folder / "quay.png").write_bytes(PNG)
    pipeline.ingest(folder)
    assert pipeline.status(folder) == "failed"
    told = read_ingestion_report(pipeline.app, pipeline.source(folder), {})
    assert told.request_failed
    assert told.passed_over.kinds == {"picture": 1}
    (folder / "note.txt").write_text("A note.")
    pipeline.ingest(folder)
    assert pipeline.status(folder) == "completed"
    assert read_ingestion_report(pipeline.app, pipeline.source(folder), {}).passed_over.kinds == {"picture": 1}


def test_a_fetch_that_is_repeated_tells_of_the_last_time(pipeline: Pipeline, folder: Path) -> None:
    (folder / "note.txt").write_text("A note.")
    (folder / "quay.png").write_bytes(PNG)
    pipeline.ingest(folder)
    source = pipeline.source(folder)
    (folder / "pier.png").write_bytes(PNG)
    assert pipeline.world.store.reset("archives", source_id(source))
    pipeline.world.run_for(3 * 86_400)
    report = fetch_report(pipeline.app, source)
    assert report is not None
    assert report.passed_over == {"picture": 2}


def test_only_the_last_fetch_of_a_source_is_kept(pipeline: Pipeline, folder: Path) -> None:
    (folder / "note.txt").write_text("A note.")
    (folder / "quay.png").write_bytes(PNG)
    for _ in range(5):
        pipeline.ingest(folder)
    fetches = [one for one in pipeline.all(Report) if one.archive_id == source_id(pipeline.source(folder))]
    assert len(fetches) == 1


def test_a_million_pictures_make_a_small_account() -> None:
    found = SkippedFiles()
    for number in range(1_000_000):
        found.add(SkipReason("picture", "png file"), f"pictures/{number}.png")
    found.add(SkipReason("office", "docx file"), "report.docx")
    assert found.kinds == {"picture": 1_000_000, "office": 1}
    assert len(found.listed) == LISTED_PER_KIND + 1
    assert found.listed[-1].path == "report.docx", "a kind of few is listed beside one of many"


def test_long_paths_do_not_make_a_large_account() -> None:
    found = SkippedFiles()
    for kind in range(20):
        for number in range(LISTED_PER_KIND):
            found.add(SkipReason(f"kind{kind}", "a file"), f"{number}/" + "é" * 2_000)
    assert sum(len(one.path.encode()) for one in found.listed) <= LISTED_BYTES
    assert sum(found.kinds.values()) == 20 * LISTED_PER_KIND


@pytest.fixture
def maildir(folder: Path) -> Path:
    for part in ("cur", "new", "tmp"):
        (folder / part).mkdir()
    (folder / "cur" / "1.a:2,S").write_text(mail("1"))
    (folder / "new" / "2.a").write_bytes(b"")
    (folder / "new" / ".stale").write_text("x")
    (folder / "dovecot.index").write_bytes(b"\0")
    return folder


def test_what_is_no_mail_in_a_maildir_is_counted(maildir: Path, tmp_path: Path) -> None:
    found = SkippedFiles()
    for item in fetch(str(maildir), FetchLimits(), tmp_path, skipped=found):
        item.copy_to(io.BytesIO())
    assert found.kinds == {"empty": 1}
    assert [one.path for one in found.listed] == ["new/2.a"]
    assert found.ignored == {"mail_server": 2}


# -- messages


def test_a_message_in_several_files_is_one_message(pipeline: Pipeline, folder: Path) -> None:
    shared, own = mail("shared"), mail("own", "Only here.")
    (folder / "a.mbox").write_bytes(mbox(shared, own, own))
    (folder / "b.mbox").write_bytes(mbox(shared, mail("other", "Only there.")))
    (folder / "c.mbox").write_bytes(mbox(shared))
    pipeline.ingest(folder)
    source = pipeline.source(folder)
    counts = read_ingestion_report(pipeline.app, source, {}).messages
    assert counts == {"messages": 3, "parsed": 3, "failed": 0, "duplicates": 3}
    (standing,) = read_status(pipeline.app).sources
    assert standing["messages"] == counts["messages"]
    archives = [one for one in pipeline.all(Archive) if one.blob is not None]
    each = [archive_counts(pipeline.app, one) for one in archives]
    assert sum(one["messages"] for one in each) == 3, "each message belongs to one archive"
    assert sum(one["duplicates"] for one in each) == 3


def test_counts_agree_when_two_files_are_read_at_the_same_time(pipeline: Pipeline, folder: Path) -> None:
    shared = mbox(*(mail(str(n)) for n in range(5)))
    (folder / "a.mbox").write_bytes(shared)
    (folder / "b.mbox").write_bytes(shared + mbox(mail("6")))
    pipeline.submit(folder)
    pipeline.run("ingestion")
    with pipeline.meanwhile("parsing", lambda: pipeline.step("parsing")):
        pipeline.run()
    counts = read_ingestion_report(pipeline.app, pipeline.source(folder), {}).messages
    assert counts == {"messages": 6, "parsed": 6, "failed": 0, "duplicates": 5}


def test_counts_agree_after_one_of_two_files_is_gone(pipeline: Pipeline, folder: Path) -> None:
    (folder / "a.mbox").write_bytes(mbox(mail("shared"), mail("1")))
    (folder / "b.mbox").write_bytes(mbox(mail("shared"), mail("2")))
    pipeline.ingest(folder)
    (folder / "a.mbox").unlink()
    pipeline.ingest(folder)
    counts = read_ingestion_report(pipeline.app, pipeline.source(folder), {}).messages
    assert counts == {"messages": 2, "parsed": 2, "failed": 0, "duplicates": 0}


def test_the_id_of_a_report_is_that_of_its_task(pipeline: Pipeline, folder: Path) -> None:
    (folder / "note.txt").write_text("A note.")
    task = submit(pipeline.app, str(folder))
    pipeline.run()
    report = fetch_report(pipeline.app, task.source)
    assert report is not None
    assert report.id == Document.make_id("report", task.source_id, task.submission)
