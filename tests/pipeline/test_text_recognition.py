"""Text in pictures and scanned PDFs is recognised by tesseract; without it, the reason says what to install."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import pypdfium2  # type: ignore[import-untyped]
import pytest

from onward import Status
from onward.pipeline.documents import Archive, Message
from onward.pipeline.read import ocr
from onward.pipeline.read.ocr import NeedsOCR, OCROptions, read_picture
from onward.pipeline.read.page_text import NoText, UnreadableFile
from onward.pipeline.read.pdf import read_pdf
from onward.pipeline.search import Query, search
from onward.pipeline.sources import attachment_counts, fetch_report
from tests.support.attached_files import PDF, grey_png, mail_with, pdf, scanned_pdf
from tests.support.pipeline_runs import Pipeline, mbox

pytestmark = [
    pytest.mark.prove,
    pytest.mark.skipif(shutil.which("tesseract") is None, reason="tesseract: scripts/servers.sh installs it"),
]


def drawn(text: str) -> tuple[int, int, bytes]:
    """Draw a line of text: width, height and shades of grey."""
    with pypdfium2.PdfDocument(pdf([text])) as document:
        bitmap = document[0].render(scale=3, grayscale=True)
        rows = bytes(bitmap.buffer)
        lines = [rows[at : at + bitmap.width] for at in range(0, bitmap.stride * bitmap.height, bitmap.stride)]
        return bitmap.width, 600, b"".join(lines[:600])


def png(text: str) -> bytes:
    return grey_png(*drawn(text))


def scan(text: str) -> bytes:
    return scanned_pdf(*drawn(text))


def attached() -> list[tuple[str, str, bytes]]:
    """A picture and a scan."""
    picture = ("a.png", "image/png", png("The estuary froze over."))
    return [picture, ("b.pdf", PDF, scan("Dredging begins in April."))]


@pytest.fixture
def pipeline(tmp_path: Path) -> Iterator[Pipeline]:
    with Pipeline(tmp_path / "home", ONWARD_OCR="auto").running() as running:
        yield running


@pytest.fixture
def no_tesseract(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """A machine without tesseract, for this process and the reader processes that it starts."""
    close_readers()
    monkeypatch.setattr(ocr, "PROGRAM", "no-such-program")
    monkeypatch.setenv("PATH", str(tmp_path))
    return monkeypatch


def close_readers() -> None:
    from onward.pipeline.read.limited_reader import close_processes

    close_processes()


def test_the_text_of_a_picture_is_recognised() -> None:
    assert read_picture(png("The estuary froze over."), OCROptions()).text == "The estuary froze over."


def test_the_text_of_a_scanned_pdf_is_recognised() -> None:
    page = read_pdf(scan("Dredging begins in April."), OCROptions())
    assert page.text == "Dredging begins in April."
    assert page.defects == ("its text was recognised (OCR)",)


def test_a_pdf_with_text_is_not_recognised() -> None:
    assert read_pdf(pdf(["As written."]), OCROptions()).defects == ()


def test_scanned_pages_among_others_are_recognised() -> None:
    page = read_pdf(scanned_pdf(*drawn("Dredging begins in April."), "The cover."), OCROptions())
    assert page.text == "The cover.\n\nDredging begins in April."
    assert page.defects == ("the text of 1 of 2 pages was recognised (OCR)",)


def test_the_text_of_a_scan_in_strips_is_recognised() -> None:
    page = read_pdf(scanned_pdf(*drawn("Dredging begins in April."), "The cover.", strips=50), OCROptions())
    assert page.text == "The cover.\n\nDredging begins in April."


def test_the_text_of_a_scan_with_a_stamp_is_recognised() -> None:
    page = read_pdf(scanned_pdf(*drawn("Dredging begins in April."), stamp="Scanned by a phone"), OCROptions())
    assert "Dredging begins in April." in page.text
    assert page.text.count("Scanned by a phone") == 1
    assert page.defects == ("its text was recognised (OCR)",)


def test_scanned_pages_among_others_are_missed_without_tesseract(no_tesseract: pytest.MonkeyPatch) -> None:
    page = read_pdf(scanned_pdf(*drawn("Dredging begins in April."), "The cover."), OCROptions())
    assert page.text == "The cover."
    assert page.defects == (
        "1 of 2 pages are scans, whose text was not recognised: onward doctor says what is missing",
    )


def test_a_picture_without_text_says_so() -> None:
    with pytest.raises(NoText, match="no text was recognised"):
        read_picture(png(""), OCROptions())


def test_a_damaged_picture_says_so() -> None:
    with pytest.raises(UnreadableFile, match="damaged"):
        read_picture(png("Hello")[:200], OCROptions())


def test_a_missing_language_says_what_to_install() -> None:
    with pytest.raises(NeedsOCR, match="tesseract-ocr-xyz"):
        read_picture(png("Hello"), OCROptions("xyz"))


def test_the_time_is_limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "tesseract"
    program.write_text("#!/bin/sh\nexec sleep 1000\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)
    with pytest.raises(UnreadableFile, match="ONWARD_OCR_SECONDS"):
        read_picture(png("Hello"), OCROptions(seconds=0.0))


def test_attached_pictures_and_scans_are_found(pipeline: Pipeline, archive: Path) -> None:
    files = attached()
    archive.write_bytes(mbox(bytes(mail_with("1", *files, ("dot.png", "image/png", png(""))))))
    pipeline.ingest(archive)
    pipeline.check_at_rest()
    for words, name in (("estuary froze", "a.png"), ("dredging april", "b.pdf")):
        hit, *_ = search(pipeline.app, Query(words)).hits
        assert hit.message.attached_to is not None
        assert hit.message.attached_to.name == name
    (counts,) = attachment_counts(pipeline.app, [pipeline.source(archive)]).values()
    assert (counts.total, counts.searchable, counts.not_read, counts.failed) == (3, 2, 1, 0)
    assert pipeline.status(archive) == "completed"


def test_pictures_and_scans_of_a_folder_are_found(pipeline: Pipeline, folder: Path) -> None:
    (folder / "a.png").write_bytes(png("The estuary froze over."))
    (folder / "b.pdf").write_bytes(scan("Dredging begins in April."))
    (folder / "photo.png").write_bytes(png(""))
    pipeline.ingest(folder)
    pipeline.check_at_rest()
    assert pipeline.texts() == ["Dredging begins in April.", "The estuary froze over."]
    assert pipeline.status(folder) == "completed"
    (photo,) = [one for one in pipeline.all(Archive) if one.path == "photo.png"]
    assert "no text was recognised" in photo.not_read


def test_what_was_not_read_for_want_of_tesseract_is_read_by_the_next_submission(
    pipeline: Pipeline, archive: Path, folder: Path, no_tesseract: pytest.MonkeyPatch
) -> None:
    files = attached()
    archive.write_bytes(mbox(bytes(mail_with("1", *files))))
    (folder / "c.png").write_bytes(png("Buoys were painted."))
    (folder / "d.pdf").write_bytes(scan("Gulls came back."))
    (folder / "e.txt").write_text("Plain.")
    for source in (archive, folder):
        pipeline.ingest(source)
    pipeline.check_at_rest()
    wanting = [one for one in pipeline.all(Archive) if one.wants_ocr]
    assert sorted(one.path.rpartition("/")[2] for one in wanting) == ["a.png", "b.pdf", "d.pdf"]
    assert all("apt install tesseract-ocr" in one.not_read for one in wanting)
    report = fetch_report(pipeline.app, pipeline.source(folder))
    assert report is not None
    assert ["apt install tesseract-ocr" in one.reason for one in report.passed_over_items] == [True]
    assert pipeline.counts(folder)["messages"] == {"processed": 1, "failed": 1}

    no_tesseract.undo()
    close_readers()
    for source in (archive, folder):
        pipeline.ingest(source)
    pipeline.check_at_rest()
    assert pipeline.texts() == [
        "Buoys were painted.",
        "Dredging begins in April.",
        "Gulls came back.",
        "It is attached.",
        "Plain.",
        "The estuary froze over.",
    ]
    assert not [one for one in pipeline.all(Archive) if one.wants_ocr or one.not_read]
    assert {one.status for one in pipeline.world.store.states(Message, limit=100)} == {Status.PROCESSED}


def test_a_scan_that_was_replaced_meanwhile_is_not_read_again(
    pipeline: Pipeline, folder: Path, no_tesseract: pytest.MonkeyPatch
) -> None:
    file = folder / "d.pdf"
    file.write_bytes(scan("Gulls came back."))
    pipeline.ingest(folder)
    (old,) = [one for one in pipeline.all(Archive) if one.wants_ocr]

    no_tesseract.undo()
    close_readers()
    file.write_bytes(scan("Terns came back."))
    pipeline.submit(folder)
    pipeline.run("ingestion")
    stored = pipeline.app.get(Archive, old.id)
    assert stored is not None
    assert stored.submission == old.submission, "else it could replace the new one"
    pipeline.run()
    pipeline.check_at_rest()
    assert pipeline.texts() == ["Terns came back."]
