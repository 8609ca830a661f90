"""Office files and e-books: documents, spreadsheets and slides of the three large families."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from onward.pipeline.fetch.office_formats import OLE_START, ZIP_STARTS, office_format
from onward.pipeline.read import office_xml
from onward.pipeline.read.charsets import clean
from onward.pipeline.read.office_package import PART_ERRORS, damaged_chapters, damaged_sheets
from onward.pipeline.read.page_text import NoText, PageText, UnreadableFile

_MEDIA_TYPES = {
    "doc": "application/msword",
    "epub": "application/epub+zip",
    "ppt": "application/vnd.ms-powerpoint",
    "pptx": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "rtf": "application/rtf",
    "xls": "application/vnd.ms-excel",
    "xlsb": "application/vnd.ms-excel.sheet.binary.macroEnabled.12",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
}
_MAX_CELL_CHARACTERS = 40_000  # Excel's are shorter
_UNKNOWN = frozenset({"Unknown Title", "Unknown Author"})  # as LibreOffice writes them into e-books
_WHITE = re.compile(r"\s+")


def read_office_file(data: bytes, name: str = "", charset: str = "") -> PageText:
    """Return the text of an office file, e-book or table, by the format of its content."""
    format = office_format(data)
    if not format:
        if data.startswith((OLE_START, *ZIP_STARTS)):
            raise _damaged(
                PurePosixPath(name).suffix.strip(".").lower() or "office", ValueError("unknown content")
            )
        from onward.pipeline.read.markup_files import read_table

        return read_table(data, name, charset)
    try:
        if format == "docx":
            page = office_xml.read_word(data)
        elif format in ("odt", "ods", "odp"):
            page = office_xml.read_open_document(data, has_headers=format == "odt")
        else:
            page = _read_with_kreuzberg(data, format)
        beside, defects = office_xml.read_beside(data, format)
        text = f"{page.text}\n\n{beside}" if beside else page.text
        page = page._replace(text=text, defects=(*page.defects, *defects))
    except UnreadableFile:
        raise
    except (*PART_ERRORS, StopIteration) as error:
        raise _damaged(format, error) from error
    if not page.text.strip():
        if page.defects:
            raise _damaged(format, ValueError(page.defects[0]))
        raise NoText(f"the {format} file has no text: it may consist of pictures; save it as PDF with text")
    return page


def _damaged(format: str, error: Exception) -> UnreadableFile:
    return UnreadableFile(
        f"the {format} file is damaged ({error}): open it with the program that made it, save it again, and "
        "ingest that"
    )


def _read_with_kreuzberg(data: bytes, format: str) -> PageText:
    try:
        import kreuzberg
    except ImportError as error:
        raise UnreadableFile(
            f"reading {format} files needs a package that is not installed: pip install 'onward[formats]', then "
            "retry it"
        ) from error
    defects = list[str]()
    if format in ("xlsx", "xlsb"):
        defects += damaged_sheets(data)
    elif format == "epub":
        defects, data = damaged_chapters(data)
    elif format == "rtf" and not data.rstrip(b"\0\r\n\t \x1a").endswith(b"}"):
        defects.append("it is cut off: text may be missing")
    # No cache: it would write the texts into a folder of the user. Its Markdown escapes "&" and "<".
    config = kreuzberg.ExtractionConfig(use_cache=False, enable_quality_processing=False, output_format="plain")
    try:
        found = kreuzberg.extract_bytes_sync(data, _MEDIA_TYPES[format], config)
    except kreuzberg.KreuzbergError as error:
        raise _damaged(format, error) from error
    facts: dict[str, object] = dict(found.metadata)
    authors = facts.get("authors")
    author = authors[0] if isinstance(authors, list) and authors else facts.get("created_by")
    text = clean(found.content)
    if format in ("xlsx", "xls", "xlsb") and found.tables:
        texts = [_table(table.cells, defects) for table in found.tables]
        names = facts.get("sheet_names")
        if isinstance(names, list) and len(names) == len(found.tables) > 1:
            texts = [f"{name}\n\n{table}" for name, table in zip(names, texts, strict=True)]
        text = "\n\n".join(texts)
    date = office_xml.date_of(str(facts.get("created_at") or ""))
    return PageText(_fact(facts.get("title")), _fact(author), date, text, tuple(dict.fromkeys(defects)))


def _fact(value: object) -> str:
    return clean(value).strip() if isinstance(value, str) and value not in _UNKNOWN else ""


def _table(rows: list[list[str]], defects: list[str]) -> str:
    """Return a table in Markdown, without the rows and columns at its end that are empty."""
    lines = []
    for row in rows:
        cells = [_WHITE.sub(" ", clean(cell)).strip() for cell in row]
        if any(len(cell) > _MAX_CELL_CHARACTERS for cell in cells):
            defects.append(f"cells cut after {_MAX_CELL_CHARACTERS:,} characters; all of it is in the archive")
            cells = [cell[:_MAX_CELL_CHARACTERS] for cell in cells]
        while cells and not cells[-1]:
            cells.pop()
        if cells:
            lines.append(" | ".join(cells))
    return "\n".join(lines)
