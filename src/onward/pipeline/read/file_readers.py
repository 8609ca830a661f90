"""The readers of files by kind, and which of them run in a limited process.

The modules of the readers are imported at their first use: a limited process loads only those it needs.
"""

from __future__ import annotations

from typing import NamedTuple

from onward.pipeline.read.ocr import OCROptions
from onward.pipeline.read.page_text import PageText

# Kinds whose readers are native code, or may take any time or memory: they run in a limited process.
LIMITED_KINDS = frozenset(
    {
        "pdf",
        "picture",
        "word",
        "spreadsheet",
        "slides",
        "ebook",
        "notebook",
        "calendar",
        "contacts",
        "latex",
        "man",
        "subtitles",
    }
)
LARGE_PAGE_BYTES = 300_000  # the article of a larger web page may take minutes to find


class FileToRead(NamedTuple):
    """What a reader gets about a file beside its bytes."""

    kind: str
    name: str  # its path or URL
    url: str = ""
    charset: str = ""  # from the server
    ocr: OCROptions = OCROptions()
    find_article: bool = True  # of a web page; otherwise all of its visible text is read


def needs_limits(kind: str, size: int) -> bool:
    """Return whether a file of a kind and a size in bytes is read in a limited process."""
    return kind in LIMITED_KINDS or (kind == "html" and size > LARGE_PAGE_BYTES)


def read_content(file: FileToRead, data: bytes) -> PageText:
    """Return the text of a file, read in this process."""
    match file.kind:
        case "html":
            from onward.pipeline.read.web_pages import read_page

            return read_page(data, file.url, file.charset, find_article=file.find_article)
        case "pdf":
            from onward.pipeline.read.pdf import read_pdf

            return read_pdf(data, file.ocr)
        case "picture":
            from onward.pipeline.read.ocr import read_picture

            return read_picture(data, file.ocr)
        case "word" | "slides" | "ebook" | "spreadsheet":
            from onward.pipeline.read.office_files import read_office_file

            return read_office_file(data, file.name, file.charset)
        case "calendar" | "contacts":
            from onward.pipeline.read import content_lines

            read = content_lines.read_calendar if file.kind == "calendar" else content_lines.read_contacts
            return read(data, file.charset)
        case "notebook":
            from onward.pipeline.read.markup_files import read_notebook

            return read_notebook(data)
        case "latex" | "man" | "subtitles":
            from onward.pipeline.read import markup_files

            readers = {"latex": markup_files.read_latex, "man": markup_files.read_man}
            return readers.get(file.kind, markup_files.read_subtitles)(data, file.charset)
        case _:
            from onward.pipeline.read.text_files import read_text_file

            return read_text_file(data, file.kind, file.name, file.charset)
