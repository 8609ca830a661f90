"""A damaged part of an office file, e-book or PDF is a defect that names it; the other parts are read."""

from __future__ import annotations

import re

import pytest

from onward.pipeline.read.file_readers import FileToRead
from onward.pipeline.read.limited_reader import ReaderLimitReached, ReaderLimits, read_limited
from onward.pipeline.read.office_files import read_office_file
from onward.pipeline.read.page_text import UnreadableFile
from onward.pipeline.read.pdf import MAX_DEFECTS, BrokenPDF, read_pdf
from tests.support.attached_files import pdf
from tests.support.format_samples import (
    docx,
    epub,
    open_document,
    samples,
    unzipped,
    with_bad_checksum,
    word_paragraph,
    xlsx,
    zipped,
)

BODY = word_paragraph("The body.")
COMMENT = f"<w:comment>{word_paragraph('A comment.')}</w:comment>"
SHEETS = xlsx([["The first sheet."]], [["The second sheet."]])
CHAPTERS = epub("The first chapter.", "The second chapter.")


def changed(data: bytes, name: str, content: str | None) -> bytes:
    """Return a zip with another content of a member, or without it."""
    members = unzipped(data)
    del members[name]
    return zipped(members if content is None else {**members, name: content})


def cut(data: bytes, name: str) -> str:
    """Return the first half of a member."""
    whole = unzipped(data)[name]
    return whole[: whole.index("The ") + 4]


SHEET, CHAPTER = "xl/worksheets/sheet2.xml", "c2.xhtml"


@pytest.mark.parametrize(
    ("content", "defect"),
    ((None, "is missing"), (cut(SHEETS, SHEET), "is damaged"), ("\x01\x02", "is damaged"), ("", "is damaged")),
    ids=("missing", "cut", "binary", "empty"),
)
def test_a_sheet_that_is_missing_or_damaged_is_a_defect(content: str | None, defect: str) -> None:
    page = read_office_file(changed(SHEETS, SHEET, content))
    assert "The first sheet." in page.text
    assert re.fullmatch(rf"{SHEET} {defect}.*", "; ".join(page.defects))


def test_a_sheet_of_a_binary_workbook_that_is_damaged_is_a_defect() -> None:
    part = "xl/worksheets/sheet1.bin"
    (defect,) = read_office_file(with_bad_checksum(samples()["a.xlsb"], part)).defects
    assert defect.startswith(f"{part} is damaged (Bad CRC-32")


def test_the_shared_texts_of_a_workbook_that_are_missing_are_a_defect() -> None:
    rels = "xl/_rels/workbook.xml.rels"
    kind = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/sharedStrings"
    one = f'<Relationship Id="s" Type="{kind}" Target="/xl/sharedStrings.xml"/></Relationships>'
    page = read_office_file(
        changed(SHEETS, rels, unzipped(SHEETS)[rels].replace("</Relationships>", one)),
    )
    assert page.defects == ("xl/sharedStrings.xml is missing, with its text",)


@pytest.mark.parametrize(
    ("content", "defect"),
    ((None, "is missing"), (cut(CHAPTERS, CHAPTER), "is damaged"), ("\x01\x02", "is damaged"), ("", "is damaged")),
    ids=("missing", "cut", "binary", "empty"),
)
def test_a_chapter_that_is_missing_or_damaged_is_a_defect(content: str | None, defect: str) -> None:
    page = read_office_file(changed(CHAPTERS, CHAPTER, content))
    assert "The first chapter." in page.text
    assert re.fullmatch(rf"{CHAPTER} {defect}.*", "; ".join(page.defects))


def test_a_chapter_whose_name_is_quoted_is_read() -> None:
    page = read_office_file(epub("The first.", "The second.", name="chapter%20{}.xhtml"))
    assert [one for one in ("The first.", "The second.") if one in page.text] == ["The first.", "The second."]
    assert page.defects == ()


@pytest.mark.parametrize(
    "data",
    (
        changed(xlsx([["The only sheet."]]), "xl/worksheets/sheet1.xml", ""),
        changed(epub("The only chapter."), "c1.xhtml", "<html"),
        b"{\\rtf1\\ansi{\\fonttbl{\\f0 Ari",
        changed(samples()["a.docx"], "word/document.xml", ""),
    ),
    ids=("xlsx", "epub", "rtf", "docx"),
)
def test_a_file_without_text_that_is_damaged_is_not_said_to_have_pictures(data: bytes) -> None:
    with pytest.raises(UnreadableFile, match="file is damaged"):
        read_office_file(data)


def test_rtf_that_is_cut_off_has_a_defect() -> None:
    whole = samples()["a.rtf"]
    assert read_office_file(whole + b"\r\n\0").defects == ()
    assert read_office_file(whole[:-2]).defects == ("it is cut off: text may be missing",)


@pytest.mark.parametrize(
    ("data", "part"),
    (
        (with_bad_checksum(docx(BODY, comments=COMMENT), "word/comments.xml"), "word/comments.xml"),
        (changed(docx(BODY, footer1="x"), "word/footer1.xml", ""), "word/footer1.xml"),
        (changed(docx(BODY), "docProps/core.xml", ""), "docProps/core.xml"),
        (
            zipped({**unzipped(xlsx([["The body."]])), "xl/comments1.xml": ""}),
            "xl/comments1.xml",
        ),
        (
            changed(open_document("text", "<text:p>The body.</text:p>"), "meta.xml", ""),
            "meta.xml",
        ),
    ),
    ids=("comments", "footer", "facts", "comments of cells", "facts of OpenDocument"),
)
def test_a_damaged_part_beside_the_main_one_is_a_defect(data: bytes, part: str) -> None:
    page = read_office_file(data)
    assert page.text == "The body."
    (defect,) = page.defects
    assert defect.startswith(f"{part} is damaged")


def test_the_main_part_of_a_word_file_has_any_name() -> None:
    moved = {
        name.replace("word/document", "word/document3"): text.replace("word/document", "word/document3")
        for name, text in unzipped(docx(BODY)).items()
    }
    assert read_office_file(zipped(moved)).text == "The body."
    del moved["_rels/.rels"]
    assert read_office_file(zipped(moved)).text == "The body."


@pytest.mark.parametrize("megabytes", (30, 40))
def test_a_word_file_that_needs_too_much_memory_says_so(megabytes: int) -> None:
    limits = ReaderLimits(memory_bytes=megabytes * 1_000_000)
    with pytest.raises(ReaderLimitReached, match="ONWARD_READ_MAX_MEMORY_BYTES"):
        read_limited(FileToRead("word", "a.docx"), docx("<w:p/>" * 300_000), limits)


def test_a_page_of_a_pdf_that_is_missing_is_a_defect() -> None:
    missing = pdf(["Page one", "Page two", "Page three"]).replace(b"/Kids [4 0 R 6 0 R", b"/Kids[4 0 R 99 0 R")
    page = read_pdf(missing)
    assert page.text == "Page one\n\nPage three"
    assert page.defects == ("page 2 is damaged: its text is missing",)


@pytest.mark.parametrize("locked", ("", "/Encrypt 9 9 R"))
def test_a_page_whose_drawing_cannot_be_unpacked_is_a_defect(locked: str) -> None:
    file = pdf(["Page one", "Page two", "Page three"], packed=True, trailer=locked)
    assert read_pdf(file).defects == ()
    at = file.index(b">>\nstream\n", file.index(b">>\nstream\n") + 1) + 10
    page = read_pdf(file[: at + 2] + b"\x07" + file[at + 3 :])
    assert page.text == "Page one\n\nPage three"
    assert page.defects == (() if locked else ("1 part of the PDF is damaged: text may be missing",))


def test_no_more_of_a_pdf_is_unpacked_than_allowed_to_find_damage(monkeypatch: pytest.MonkeyPatch) -> None:
    file = pdf(["x" * 200, "Page two"], packed=True)
    at = file.rindex(b">>\nstream\n") + 10
    damaged = file[: at + 2] + b"\x07" + file[at + 3 :]
    assert len(read_pdf(damaged).defects) == 1
    monkeypatch.setattr("onward.pipeline.read.pdf.MAX_CHECKED_BYTES", 100)
    assert read_pdf(damaged).defects == ()


def test_many_damaged_pages_are_counted() -> None:
    missing = re.sub(rb"([4-9]|\d\d) 0 R(?= \d+ 0 R)", b"99 9 R", pdf(["Page"] * 20))
    page = read_pdf(missing)
    assert page.text == "Page"
    assert len(page.defects) == MAX_DEFECTS + 1
    assert page.defects[-1] == "9 more pages are damaged: their text is missing"


def test_a_pdf_without_a_page_that_is_whole_is_damaged() -> None:
    with pytest.raises(BrokenPDF, match="none of its pages"):
        read_pdf(pdf(["Page one"]).replace(b"/Kids [4 0 R", b"/Kids [9 9 R"))
