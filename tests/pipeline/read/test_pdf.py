"""Of a PDF its text is read; one without text says what is missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pypdfium2  # type: ignore[import-untyped]
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import Permanent
from onward.pipeline.documents import Archive
from onward.pipeline.read.message_reader import read_file
from onward.pipeline.read.page_text import NoText
from onward.pipeline.read.pdf import MAX_PIXELS, BrokenPDF, LockedPDF, _picture, read_pdf
from tests.support.attached_files import pdf, scanned_pdf


def test_the_text_of_its_pages_one_below_the_other() -> None:
    page = read_pdf(pdf(["First page", "", "Third page"]))
    assert page.text == "First page\n\nThird page"
    assert (page.title, page.author, page.date) == ("", "", None)


@pytest.mark.parametrize(
    ("written", "date"),
    (
        ("D:20260302100000Z", 1772445600.0),
        ("D:20260302120000+02'00'", 1772445600.0),
        ("D:20260302", 1772409600.0),
        ("D:20260302100000+24'00'", 1772445600.0),  # no such zone: read as UTC
        ("D:20260302100000-23'99'", 1772445600.0),
        ("D:20269999", None),
        ("yesterday", None),
    ),
)
def test_what_it_says_about_itself(written: str, date: float | None) -> None:
    page = read_pdf(pdf(["x"], f"/Title (On progress) /Author (Ada) /CreationDate ({written})"))
    assert (page.title, page.author, page.date) == ("On progress", "Ada", date)


@pytest.mark.parametrize(
    "title",
    (
        *("untitled", "Untitled-1", "UNTITLED DOCUMENT", "<untitled>", "untitled.pdf", "Unbenannt"),
        "Sans titre 2",
        *("Document1", "Microsoft Word - Document2", "PowerPoint Presentation", "Title", "none", " - ", "1"),
    ),
)
@pytest.mark.parametrize("name", ("", "report.pdf"))
def test_a_title_that_says_nothing_does_not_beat_the_name_of_the_file(title: str, name: str) -> None:
    archive = Archive(id="a", source="/files/plan.pdf", source_id="s", kind="pdf", name=name)
    read = read_file(archive, "m", pdf(["x"], f"/Title ({title})"))
    assert read.message.subject == (name or "plan.pdf")


@pytest.mark.parametrize("title", ("Untitled goose", "Document 1 of the treaty", "The title", "1984"))
def test_a_title_that_says_something_is_kept(title: str) -> None:
    assert read_pdf(pdf(["x"], f"/Title ({title})")).title == title


def test_a_scanned_pdf_says_that_it_needs_text_recognition() -> None:
    with pytest.raises(NoText, match=r"2 pages and no text.*scanned.*OCR"):
        read_pdf(pdf(["", ""]))


def test_pages_that_are_scans_are_counted_where_their_text_is_not_recognised() -> None:
    page = read_pdf(scanned_pdf(600, 600, bytes(360_000), "The cover."))
    assert page.text == "The cover."
    assert page.defects == ("1 of 2 pages are scans, whose text was not recognised: ONWARD_OCR=off",)
    assert read_pdf(scanned_pdf(100, 100, bytes(10_000), "The cover.")).defects == ()  # a mark
    assert read_pdf(pdf(["The cover.", ""])).defects == ()  # an empty page


UNREAD = "pages are scans, whose text was not recognised: ONWARD_OCR=off"


def test_a_scan_is_one_in_strips_and_with_a_stamp() -> None:
    grey = bytes(360_000)
    strips = read_pdf(scanned_pdf(600, 600, grey, "The cover.", strips=20))
    assert (strips.text, strips.defects) == ("The cover.", (f"1 of 2 {UNREAD}",))
    stamped = read_pdf(scanned_pdf(600, 600, grey, stamp="Scanned by a phone"))
    assert (stamped.text, stamped.defects) == ("Scanned by a phone", (f"1 of 1 {UNREAD}",))


def test_a_page_with_a_text_and_a_picture_is_no_scan() -> None:
    grey = bytes(360_000)
    recognised_before = "The text of a whole page. " * 10
    assert read_pdf(scanned_pdf(600, 600, grey, stamp=recognised_before)).defects == ()
    assert read_pdf(scanned_pdf(600, 600, grey, stamp="A caption", scale=0.5)).defects == ()


def test_a_page_of_a_kilometre_is_drawn_within_the_limit() -> None:
    small = scanned_pdf(600, 600, bytes(360_000))
    with pypdfium2.PdfDocument(
        small.replace(b"/MediaBox [0 0 600 600]", b"/MediaBox [0 0 9999 9999]")
    ) as document:
        width, height = map(int, _picture(document, 0).split(b" ", 3)[1:3])
    assert width > 4_000
    assert width * height <= MAX_PIXELS * 1.01


def test_a_locked_pdf_says_what_to_do() -> None:
    zeros = "00" * 32
    lock = f"/Encrypt << /Filter /Standard /V 1 /R 2 /Length 40 /P -4 /O <{zeros}> /U <{zeros}> >> /ID [<00> <00>]"
    with pytest.raises(LockedPDF, match="without one"):
        read_pdf(pdf(["secret"], trailer=lock))


@pytest.mark.parametrize("data", (b"", b"no PDF", b"%PDF-1.4\n", b"%PDF-1.4\n%%EOF"))
def test_a_broken_pdf_is_a_permanent_error(data: bytes) -> None:
    with pytest.raises(BrokenPDF, match="damaged") as caught:
        read_pdf(data)
    assert isinstance(caught.value, Permanent)


def test_many_threads_read_at_once() -> None:
    files = [pdf([f"file {number}"] * 3) for number in range(20)]
    with ThreadPoolExecutor(8) as threads:
        texts = [page.text for page in threads.map(read_pdf, files)]
    assert texts == ["\n\n".join([f"file {number}"] * 3) for number in range(20)]


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_a_damaged_pdf_gives_text_or_our_error(data: st.DataObject) -> None:
    file = bytearray(pdf(["Hello", "World"], "/Title (T)"))
    for _ in range(data.draw(st.integers(1, 5))):
        file[data.draw(st.integers(0, len(file) - 1))] = data.draw(st.integers(0, 255))
    try:
        page = read_pdf(bytes(file))
    except Permanent:
        return
    assert page.text.strip() != ""
