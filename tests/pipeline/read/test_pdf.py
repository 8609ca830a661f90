"""Of a PDF its text is read; one without text says what is missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from onward import Permanent
from onward.pipeline.documents import Archive
from onward.pipeline.read.message_reader import NoText, read_file
from onward.pipeline.read.pdf import BrokenPDF, LockedPDF, read_pdf


def pdf(pages: list[str], info: str = "", trailer: str = "") -> bytes:
    """Write a PDF by hand: a catalog, its pages, a font, and each page's drawing of a line of text."""
    count = len(pages)
    fonts = "/Resources << /Font << /F1 3 0 R >> >>"
    kids = " ".join(f"{4 + 2 * number} 0 R" for number in range(count))
    objects = [
        "<< /Type /Catalog /Pages 2 0 R >>",
        f"<< /Type /Pages /Kids [{kids}] /Count {count} >>",
        "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    ]
    for number, text in enumerate(pages):
        drawing = f"BT /F1 12 Tf 72 700 Td ({text}) Tj ET" if text else "0 0 100 100 re f"
        objects += [
            f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 612 792] /Contents {5 + 2 * number} 0 R {fonts} >>",
            f"<< /Length {len(drawing)} >>\nstream\n{drawing}\nendstream",
        ]
    objects.append(f"<< {info} >>")
    out, offsets = "%PDF-1.4\n", []
    for number, body in enumerate(objects, 1):
        offsets.append(len(out))
        out += f"{number} 0 obj\n{body}\nendobj\n"
    start = len(out)
    out += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n"
    out += "".join(f"{offset:010} 00000 n \n" for offset in offsets)
    out += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R /Info {len(objects)} 0 R {trailer} >>\n"
    return (out + f"startxref\n{start}\n%%EOF\n").encode("latin-1")


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
