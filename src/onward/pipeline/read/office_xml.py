"""The text of Word and OpenDocument files, read from their XML.

A library would be less code, but python-docx leaves out footnotes and text boxes, mammoth headers and footers, and
kreuzberg 4.10 the characters & and < of Word files, and all of OpenDocument presentations.
"""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial

from lxml import etree  # type: ignore[import-untyped]

from onward.pipeline.read.charsets import clean
from onward.pipeline.read.office_package import main_part, part_root, tag_of, unless_damaged
from onward.pipeline.read.page_text import PageText, UnreadableFile

_WORD_PARTS = re.compile(r"word/(?:footnotes|endnotes|comments|header|footer)\d*\.xml")
# Comments of cells and slides, text boxes of sheets (which kreuzberg leaves out), and diagrams.
_BESIDE = {
    "docx": re.compile(r"word/diagrams/data\d*\.xml"),
    "xlsx": re.compile(r"xl/(?:comments\d*|drawings/drawing\d*|diagrams/data\d*)\.xml"),
    "pptx": re.compile(r"ppt/(?:comments/[^/]*|diagrams/data\d*)\.xml"),
}
# In the order of reading: the body first, then what stands beside it.
_PART_ORDER = ("header", "footnotes", "endnotes", "comments", "footer")
_PARAGRAPHS = frozenset({"p", "h"})
_CELLS = frozenset({"tc", "table-cell"})
_NOTES = frozenset({"note", "annotation"})  # of OpenDocument, inside of a paragraph
_ABOUT_COMMENTS = "{http://purl.org/dc/elements/1.1/}"  # who wrote a comment, and when
_BREAKS = frozenset({"br", "cr", "line-break"})
_SKIPPED = frozenset(
    # The text of a field's code, what was deleted, and the second form of a text box for old programs.
    {"instrText", "delText", "Fallback", "tracked-changes", "sequence-decls", "forms", "note-citation", "tabs"}
)
_MAX_SPACES = 1_000
_ENDS = re.compile(r"[ \t|]+$", re.MULTILINE)  # of rows, with empty cells
_BLANK_LINES = re.compile(r"\n{3,}")


def read_word(data: bytes) -> PageText:
    """Return the text of a docx file with its headers, footers, notes and comments, each once."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        parts = sorted(filter(_WORD_PARTS.fullmatch, file.namelist()), key=lambda name: (_part_place(name), name))
        main = main_part(file, "word/document")
        defects: list[str] = []
        texts = [_part_text(file, main, defects), *(_text_beside(file, name, defects) for name in parts)]
        facts = _facts(file, "docProps/core.xml", defects)
    # Headers and footers repeat in each section.
    text = "\n\n".join(dict.fromkeys(filter(None, texts)))
    date = date_of(facts.get("created", ""))
    return PageText(facts.get("title", ""), facts.get("creator", ""), date, text, tuple(defects))


def read_open_document(data: bytes, *, has_headers: bool) -> PageText:
    """Return the text of an OpenDocument file, with the headers and footers of its pages if it has some."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        if b"encryption-data" in _member(file, "META-INF/manifest.xml"):
            raise UnreadableFile("the file needs a password; save a copy without one and ingest that")
        defects: list[str] = []
        texts = [_part_text(file, "content.xml", defects)]
        if has_headers and "styles.xml" in file.namelist():
            texts.append(_text_beside(file, "styles.xml", defects, inside="master-styles"))
        facts = _facts(file, "meta.xml", defects)
    author = facts.get("initial-creator") or facts.get("creator", "")
    text = "\n\n".join(filter(None, texts))
    date = date_of(facts.get("creation-date", ""))
    return PageText(facts.get("title", ""), author, date, text, tuple(defects))


def read_beside(data: bytes, format: str) -> tuple[str, list[str]]:
    """Return the text of an Office file that stands beside its paragraphs, cells and slides, and its defects."""
    if format not in _BESIDE:
        return "", []
    defects: list[str] = []
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        names = sorted(filter(_BESIDE[format].fullmatch, file.namelist()))
        texts = [unless_damaged(partial(_all_beside, file, name, defects), "", name, defects) for name in names]
    return "\n".join(filter(None, texts)), defects


def date_of(written: str) -> float | None:
    """Return a date of ISO 8601 as Unix seconds; without a zone it is UTC."""
    try:
        date = datetime.fromisoformat(written.strip()[:40])
        date = date if date.tzinfo else date.replace(tzinfo=UTC)
        # LibreOffice writes the year 0 or 1 for an unknown date.
        return date.timestamp() if date.year >= 1971 else None
    except (ValueError, OverflowError):
        return None


def _part_place(name: str) -> int:
    return next(place for place, part in enumerate(_PART_ORDER) if name.startswith(f"word/{part}"))


def _member(file: zipfile.ZipFile, name: str) -> bytes:
    return file.read(name) if name in file.namelist() else b""


def _text_beside(file: zipfile.ZipFile, name: str, defects: list[str], *, inside: str = "") -> str:
    return unless_damaged(partial(_part_text, file, name, defects, inside=inside), "", name, defects)


def _part_text(file: zipfile.ZipFile, name: str, defects: list[str], *, inside: str = "") -> str:
    root = part_root(file, name, defects)
    roots = [root] if not inside else [one for one in root if tag_of(one) == inside]
    text = "".join(piece for one in roots for piece in _pieces(one, is_word=name.startswith("word/")))
    return clean(_BLANK_LINES.sub("\n\n", _ENDS.sub("", text).replace(" ]", "]"))).strip()


def _all_beside(file: zipfile.ZipFile, name: str, defects: list[str]) -> str:
    return " ".join(_beside_pieces(part_root(file, name, defects)))


def _beside_pieces(root: etree._Element) -> Iterator[str]:
    for element in root.iter():
        if tag_of(element) in ("t", "text") and element.text and element.text.strip():
            yield " ".join(clean(element.text).split())


def _pieces(root: etree._Element, *, is_word: bool) -> Iterator[str]:
    """Yield the text of a part: in Word only that of `t`, in OpenDocument all of a paragraph."""
    paragraphs = cells = 0
    walk = etree.iterwalk(root, events=("start", "end"))
    for event, element in walk:
        tag = tag_of(element)
        if event == "start":
            paragraphs += tag in _PARAGRAPHS
            cells += tag in _CELLS
            if tag in _SKIPPED or str(element.tag).startswith(_ABOUT_COMMENTS):
                walk.skip_subtree()
                continue
            if tag in _BREAKS:
                yield "\n"
            elif tag == "noBreakHyphen":
                yield "-"
            elif tag == "tab":
                yield "\t"
            elif tag in _NOTES:
                yield " ["
            elif tag == "s" and not is_word:  # several spaces
                count = next((value for key, value in element.items() if key.endswith("}c")), "1")
                yield " " * (min(int(count), _MAX_SPACES) if count.isdecimal() else 1)
            if element.text and (tag == "t" if is_word else paragraphs):
                yield element.text
            continue
        if tag in _PARAGRAPHS:
            paragraphs -= 1
            yield " " if cells or paragraphs else "\n\n" if tag == "h" else "\n"
        elif tag in _CELLS:
            cells -= 1
            yield "| "
        elif tag in _NOTES:
            yield "]"
        elif tag in ("tr", "table-row", "page", "footnote", "comment"):
            yield "\n"
        if element.tail and paragraphs and not is_word:
            yield element.tail


def _facts(file: zipfile.ZipFile, name: str, defects: list[str]) -> dict[str, str]:
    """Return the title, the author and the date of a file, by the names of their elements."""
    found: dict[str, str] = {}
    if name in file.namelist():
        nothing: list[etree._Element] = []
        for element in unless_damaged(lambda: [*part_root(file, name).iter()], nothing, name, defects):
            if text := " ".join((element.text or "").split()):
                found.setdefault(tag_of(element), clean(text))
    return found
