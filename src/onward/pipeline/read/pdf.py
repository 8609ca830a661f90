"""The text of PDF files."""

from __future__ import annotations

import re
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from threading import Lock

import pypdfium2  # type: ignore[import-untyped]
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from onward import Permanent
from onward.pipeline.read.charsets import clean
from onward.pipeline.read.message_reader import NoText, PageText

# PDFium is not thread-safe: two threads in it at once crash the process.
_lock = Lock()

# A word divided at the end of a line.
_HYPHENS = re.compile("[\x02\ufffe]\r?\n?")
_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?)?")
# The default titles of programs, with an optional number.
_NO_TITLE = re.compile(
    r"[\W_]*(?:Microsoft (?:Word|Excel|PowerPoint)[\W_]*)?"
    r"(?:untitled(?: document)?|unbenannt(?:es dokument)?|ohne titel|sans titre|sin título|senza titolo|sem título"
    r"|naamloos|namnlös|uten navn|bez tytułu|без имени|без названия|无标题|無標題|無題|제목 없음"
    r"|document|dokument|presentation|powerpoint[ -]presentation|workbook|title|none|null)?"
    r"(?:[\W_]*\d{1,3})?(?:\.(?:pdf|docx?|pptx?|xlsx?|indd|tex|dvi|ps))?[\W_]*",
    re.IGNORECASE,
)
_MAX_NO_TITLE_CHARACTERS = 60


class LockedPDF(Permanent):
    """It needs a password."""


class BrokenPDF(Permanent):
    """It is damaged, or no PDF."""


def read_pdf(data: bytes) -> PageText:
    """Return the text of a PDF, page after page, with its title, author and date."""
    with _lock:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if error.err_code == pdfium.FPDF_ERR_PASSWORD:
                locked = "the PDF is locked with a password; save a copy without one and ingest that"
                raise LockedPDF(locked) from error
            raise BrokenPDF(f"the PDF is damaged ({error}): fetch or save it again") from error
        with closing(document):
            pages = [_page_text(document, number) for number in range(len(document))]
            about = document.get_metadata_dict()
    if not any(pages):
        raise NoText(
            f"the PDF has {len(pages)} {'page' if len(pages) == 1 else 'pages'} and no text: it is probably "
            "scanned; run it through text recognition (OCR) and ingest the result"
        )
    text = "\n\n".join(page for page in pages if page)
    title, author = (clean(about.get(key, "")).strip() for key in ("Title", "Author"))
    if len(title) <= _MAX_NO_TITLE_CHARACTERS and _NO_TITLE.fullmatch(title):
        title = ""
    return PageText(title, author, _date(about.get("CreationDate", "")), text)


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str:
    """Return the text of one page; of a damaged page "", so that the others are not lost."""
    try:
        with closing(document[number]) as page, closing(page.get_textpage()) as content:
            return clean(_HYPHENS.sub("", content.get_text_range())).strip()
    except pypdfium2.PdfiumError:
        return ""


def _date(written: str) -> float | None:
    match = _DATE.match(written.strip())
    if match is None:
        return None
    parts = zip(match.groups()[:6], (1, 1, 1, 0, 0, 0), strict=True)
    year, month, day, hour, minute, second = (int(part or 0) or least for part, least in parts)
    zone = UTC
    if match[7]:
        away = timedelta(hours=int(match[8]), minutes=int(match[9] or 0))
        if away < timedelta(days=1):
            zone = timezone(away if match[7] == "+" else -away)
    try:
        return datetime(year, month, day, hour, minute, second, tzinfo=zone).timestamp()
    except (ValueError, OverflowError):
        return None
