"""PDF files: their text, if they have any."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, timezone
from threading import Lock

import pypdfium2  # type: ignore[import-untyped]
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from onward import Permanent
from onward.pipeline.reading.files import clean
from onward.pipeline.reading.pages import NoText, Page

# PDFium keeps state of its own between calls: two threads in it at once crash the process.
_one_at_a_time = Lock()

# Where a word was divided at the end of a line.
_HYPHENS = re.compile("[\x02\ufffe]\r?\n?")
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?)?")


class LockedPDF(Permanent):
    """It needs a password."""


class BrokenPDF(Permanent):
    """It is damaged, or no PDF."""


def read_pdf(data: bytes) -> Page:
    """Give the text of a PDF, its pages one below the other, and what it says about itself."""
    with _one_at_a_time:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if error.err_code == pdfium.FPDF_ERR_PASSWORD:
                raise LockedPDF(
                    "the PDF is locked with a password; save a copy without one and ingest that"
                ) from error
            raise BrokenPDF(f"the PDF is damaged ({error}): fetch or save it again") from error
        try:
            pages = [_page_text(document, number) for number in range(len(document))]
            about = document.get_metadata_dict()
        finally:
            document.close()
    if not any(pages):
        raise NoText(
            f"the PDF has {len(pages)} {'page' if len(pages) == 1 else 'pages'} and no text: it is probably "
            "scanned; run it through text recognition (OCR) and ingest the result"
        )
    text = "\n\n".join(page for page in pages if page)
    title, author = (clean(about.get(key, "")).strip() for key in ("Title", "Author"))
    return Page(title, author, _date(about.get("CreationDate", "")), text)


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    """Give the text of one page; of a damaged page nothing, so that the others are not lost."""
    try:
        page = document[number]
        try:
            content = page.get_textpage()
            try:
                text = content.get_text_range()
            finally:
                content.close()
        finally:
            page.close()
    except pypdfium2.PdfiumError:
        return ""
    return clean(_HYPHENS.sub("", text).replace("\r\n", "\n").replace("\r", "\n")).strip()


def _date(written: str) -> float | None:
    match = _DATE.match(written.strip())
    if match is None:
        return None
    year, month, day, hour, minute, second = (int(part) if part else None for part in match.groups()[:6])
    zone = UTC
    if match[7]:
        away = timedelta(hours=int(match[8]), minutes=int(match[9] or 0))
        zone = timezone(away if match[7] == "+" else -away)
    try:
        return datetime(
            year or 1, month or 1, day or 1, hour or 0, minute or 0, second or 0, tzinfo=zone
        ).timestamp()
    except (ValueError, OverflowError):
        return None
