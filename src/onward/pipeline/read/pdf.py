"""The text of PDF files."""

from __future__ import annotations

import re
import zlib
from contextlib import closing
from datetime import UTC, datetime, timedelta, timezone
from threading import Lock

import pypdfium2  # type: ignore[import-untyped]
import pypdfium2.raw as pdfium  # type: ignore[import-untyped]

from onward import Permanent
from onward.pipeline.read.charsets import clean
from onward.pipeline.read.ocr import WITHOUT_OCR, NeedsOCR, OCROptions, Recognition
from onward.pipeline.read.page_text import NoText, PageText, UnreadableFile

OCR_DPI = 300  # tesseract is made for this
MAX_PIXELS = 25_000_000  # of a page: A4 has 8.7 million
MIN_SCAN_PIXELS = 250_000  # of the pictures of a scanned page: A5 has that at 60 dots an inch
MIN_SCAN_COVER = 0.5  # of a scanned page with a text: what its pictures cover
MAX_MARK_CHARACTERS = 100  # of a text that is no content: the stamp of a scanner, or a page number
MAX_DEFECTS = 10
MAX_CHECKED_BYTES = 1_000_000_000  # that are unpacked to find damage
_BLOCK = 1 << 16
_STREAM = re.compile(rb"\bstream\r?\n")
_MAX_STREAM_HEADER = 2_000
_IS_DEFLATED = re.compile(rb"/Filter\s*\[?\s*/Fl(?:ateDecode)?\b")
_ZLIB_HEADER = 2

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


def read_pdf(data: bytes, ocr: OCROptions = WITHOUT_OCR) -> PageText:
    """Return the text of a PDF, page after page, with its title, author and date; that of scans is recognised."""
    with _lock:
        try:
            document = pypdfium2.PdfDocument(data)
        except pypdfium2.PdfiumError as error:
            if error.err_code == pdfium.FPDF_ERR_PASSWORD:
                locked = "the PDF is locked with a password; save a copy without one and ingest that"
                raise LockedPDF(locked) from error
            raise BrokenPDF(f"the PDF is damaged ({error}): fetch or save it again") from error
        with closing(document):
            read = [_page_text(document, number) for number in range(len(document))]
            damaged = [number for number, text in enumerate(read, 1) if text is None]
            if read and len(damaged) == len(read):
                raise BrokenPDF("the PDF is damaged (none of its pages can be loaded): fetch or save it again")
            about = document.get_metadata_dict()
            pages, defects = _recognised(document, [text or "" for text in read], ocr)
            defects += (*_damaged_pages(damaged), *_damaged_streams(data))
    text = "\n\n".join(page for page in pages if page)
    title, author = (clean(about.get(key, "")).strip() for key in ("Title", "Author"))
    if len(title) <= _MAX_NO_TITLE_CHARACTERS and _NO_TITLE.fullmatch(title):
        title = ""
    return PageText(title, author, _date(about.get("CreationDate", "")), text, defects)


def _recognised(
    document: pypdfium2.PdfDocument, pages: list[str], ocr: OCROptions
) -> tuple[list[str], tuple[str, ...]]:
    """Return the pages with the recognised text of those that are scanned, and what was left out."""
    count, has_text = len(pages), any(pages)
    scanned = [
        number
        for number, text in enumerate(pages)
        if not has_text or (len(text) < MAX_MARK_CHARACTERS and _is_scan(document, number, text))
    ]
    if has_text and not scanned:
        return pages, ()
    scan = f"the PDF has {count} {'page' if count == 1 else 'pages'} and no text: it is probably scanned"
    try:
        found, defects = _recognise(document, scanned, ocr)
    except NeedsOCR as error:
        if has_text:
            unread = f"{len(scanned)} of {count} pages are scans, whose text was not recognised"
            return pages, (f"{unread}: {'ONWARD_OCR=off' if ocr.off else 'onward doctor says what is missing'}",)
        raise NeedsOCR(f"{scan}; {error}") from None
    if not has_text and not any(found.values()):
        reasons = "; ".join(defects[:3])
        raise NoText(f"{scan}, and no text was recognised in it" + (f" ({reasons})" if reasons else ""))
    which = f"the text of {len(scanned)} of {count} pages" if len(scanned) < count else "its text"
    recognised = f"{which} was recognised (OCR)"
    texts = [_with_recognised(text, found.get(number, "")) for number, text in enumerate(pages)]
    return texts, (recognised, *defects)[:MAX_DEFECTS]


def _with_recognised(text: str, recognised: str) -> str:
    """Return the text of a page with what was recognised on it, which may have that text, too."""
    if " ".join(text.split()) in " ".join(recognised.split()):
        return recognised
    return f"{text}\n\n{recognised}".strip()


def _recognise(
    document: pypdfium2.PdfDocument, numbers: list[int], ocr: OCROptions
) -> tuple[dict[int, str], list[str]]:
    """Return the text of each of these pages that was recognised, and what went wrong."""
    if ocr.off:
        raise NeedsOCR("set ONWARD_OCR=auto, or run it through text recognition (OCR), and ingest the result")
    recognition = Recognition(ocr)
    found: dict[int, str] = {}
    defects: list[str] = []
    for done, number in enumerate(numbers):
        if recognition.seconds_left <= 0:
            defects.append(
                f"{done} of {len(numbers)} pages were recognised in {ocr.seconds:g} s (ONWARD_OCR_SECONDS)"
            )
            break
        try:
            found[number] = recognition.text(_picture(document, number))
        except (UnreadableFile, pypdfium2.PdfiumError) as error:
            defects.append(f"page {number + 1}: {error}")
    return found, defects


def _is_scan(document: pypdfium2.PdfDocument, number: int, text: str) -> bool:
    """Return whether a page has pictures that may be a scan, perhaps in strips.

    A page that is empty or has a mark is none; with a text, only one of which pictures cover the most.
    """
    try:
        with closing(document[number]) as page:
            pictures = page.get_objects([pdfium.FPDF_PAGEOBJ_IMAGE])
            sizes = [one.get_px_size() for one in pictures]
            is_large = sum(width * height for width, height in sizes) >= MIN_SCAN_PIXELS
            return is_large and (not text or _cover(page) >= MIN_SCAN_COVER)
    except pypdfium2.PdfiumError:
        return False


def _cover(page: pypdfium2.PdfPage) -> float:
    """Return how much of a page its pictures cover, at most; a group of drawings counts as a picture."""
    left, bottom, right, top = page.get_bbox()
    covered = 0.0
    # The places of what is in a group are relative to the group.
    for one in page.get_objects([pdfium.FPDF_PAGEOBJ_IMAGE, pdfium.FPDF_PAGEOBJ_FORM], max_depth=1):
        x, y, far_x, far_y = one.get_bounds()
        covered += max(0.0, min(right, far_x) - max(left, x)) * max(0.0, min(top, far_y) - max(bottom, y))
    return float(covered / max(1.0, (right - left) * (top - bottom)))


def _picture(document: pypdfium2.PdfDocument, number: int) -> bytes:
    """Return a page as a picture in shades of grey, in the format PGM."""
    with closing(document[number]) as page:
        width, height = page.get_size()
        pixels = max(1.0, width * height)
        scale = min(OCR_DPI / 72, (MAX_PIXELS / pixels) ** 0.5)
        with closing(page.render(scale=scale, grayscale=True)) as bitmap:
            rows = bytes(bitmap.buffer)
            size, stride = (bitmap.width, bitmap.height), bitmap.stride
            if bitmap.n_channels != 1:
                raise UnreadableFile("the page cannot be drawn in shades of grey")
    lines = (rows[at : at + size[0]] for at in range(0, stride * size[1], stride))
    return b"P5 %d %d 255\n" % size + b"".join(lines)


def _damaged_pages(numbers: list[int]) -> tuple[str, ...]:
    defects = [f"page {number} is damaged: its text is missing" for number in numbers[:MAX_DEFECTS]]
    if len(numbers) > MAX_DEFECTS:
        defects.append(f"{len(numbers) - MAX_DEFECTS} more pages are damaged: their text is missing")
    return tuple(defects)


def _damaged_streams(data: bytes) -> tuple[str, ...]:
    """Return the defect of a file with compressed parts that cannot be unpacked: PDFium says nothing of them."""
    if b"/Encrypt" in data:
        return ()
    count, left = 0, MAX_CHECKED_BYTES
    for stream in _STREAM.finditer(data):
        about = data[max(0, stream.start() - _MAX_STREAM_HEADER) : stream.start()].rpartition(b"obj")[2]
        if not _IS_DEFLATED.search(about):
            continue
        # The checksum at its end is often wrong, and no reader cares.
        unpack, at = zlib.decompressobj(-zlib.MAX_WBITS), stream.end() + _ZLIB_HEADER
        try:
            while not unpack.eof and at < len(data):
                left -= len(unpack.decompress(unpack.unconsumed_tail or data[at : at + _BLOCK], _BLOCK))
                if left < 0:
                    return _damaged_parts(count)
                at += 0 if unpack.unconsumed_tail else _BLOCK
        except zlib.error:
            count += 1
    return _damaged_parts(count)


def _damaged_parts(count: int) -> tuple[str, ...]:
    parts = "1 part of the PDF is" if count == 1 else f"{count} parts of the PDF are"
    return (f"{parts} damaged: text may be missing",) if count else ()


def _page_text(document: pypdfium2.PdfDocument, number: int) -> str | None:
    """Return the text of one page; of a damaged page None, so that the others are not lost."""
    try:
        with closing(document[number]) as page, closing(page.get_textpage()) as content:
            return clean(_HYPHENS.sub("", content.get_text_range())).strip()
    except pypdfium2.PdfiumError:
        return None


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
