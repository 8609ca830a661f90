"""The parts of zipped office files and e-books: which there should be, and which are missing or damaged."""

from __future__ import annotations

import io
import lzma
import posixpath
import re
import zipfile
import zlib
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote, unquote
from xml.parsers import expat

from lxml import etree  # type: ignore[import-untyped]

from onward.pipeline.read.page_text import UnreadableFile

# What reading a part raises if it is missing, damaged, locked or packed in a way that is not supported.
PART_ERRORS = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, EOFError, KeyError, NotImplementedError, RuntimeError),
    *(etree.XMLSyntaxError, UnreadableFile),
)
_TEXT_PARTS = ("worksheet", "sharedStrings")
_CHAPTER_TYPES = ("application/xhtml+xml", "text/html", "")
_CHAPTER_END = re.compile(rb"</\s*(?:html|body)\b", re.IGNORECASE)

_Read = TypeVar("_Read")


def part_root(file: zipfile.ZipFile, name: str, defects: list[str] | None = None) -> etree._Element:
    """Parse a part; `defects` says if what follows some place of it is lost."""
    # Entities are not resolved, so that a few bytes cannot become gigabytes; those of XML itself are.
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    try:
        with file.open(name) as stream:
            root = etree.parse(stream, parser).getroot()
    except etree.XMLSyntaxError as error:
        if error.code == etree.ErrorTypes.ERR_NO_MEMORY:
            raise MemoryError from error
        raise
    if root is None:
        raise UnreadableFile(
            f"its part {name} is damaged: open it with the program that made it, and save it again"
        )
    # The parser recovers, but also gives up at its limits of depth and size.
    fatal = parser.error_log.filter_from_fatals()
    if fatal and defects is not None:
        defects.append(
            f"{name} is damaged from line {fatal[0].line} on ({fatal[0].type_name}): text may be missing"
        )
    # What follows them belongs to the text before.
    etree.strip_tags(root, etree.Comment, etree.ProcessingInstruction, etree.Entity)
    return root


def tag_of(element: etree._Element) -> str:
    return element.tag.rpartition("}")[2] if isinstance(element.tag, str) else ""


def unless_damaged(read: Callable[[], _Read], otherwise: _Read, name: str, defects: list[str]) -> _Read:
    """Return what is read of a part beside the main one; if that is damaged, only the part is missing."""
    try:
        return read()
    except PART_ERRORS as error:
        defects.append(f"{name} is damaged ({error}): what is in it is missing")
        return otherwise


def main_part(file: zipfile.ZipFile, start: str) -> str:
    """Return the name of the part with the body of an Office file, as the file says, or by how it starts."""
    names = file.namelist()
    with suppress(*PART_ERRORS):
        for kind, name in _relations(file, ""):
            if kind == "officeDocument" and name in names:
                return name
    return next(name for name in sorted(names) if re.fullmatch(rf"{start}\d*\.(?:xml|bin)", name))


def damaged_sheets(data: bytes) -> list[str]:
    """Return what is missing or damaged of a workbook's sheets, of which its reader says nothing."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        main, defects = main_part(file, "xl/workbook"), list[str]()
        parts = [main, *(name for kind, name in _relations(file, main, defects) if kind in _TEXT_PARTS)]
        return defects + _defects_of(file, parts, _xml_problem)


def damaged_chapters(data: bytes) -> tuple[list[str], bytes]:
    """Return what is missing or damaged of an e-book's chapters, and the e-book as its reader can read it."""
    with zipfile.ZipFile(io.BytesIO(data)) as file:
        defects = list[str]()
        rootfiles = [one for one in part_root(file, "META-INF/container.xml").iter() if tag_of(one) == "rootfile"]
        book = rootfiles[0].get("full-path", "") if rootfiles else ""
        elements = list(part_root(file, book, defects).iter())
        items = {one.get("id"): one for one in elements if tag_of(one) == "item"}
        listed = [items.get(one.get("idref")) for one in elements if tag_of(one) == "itemref"]
        if None in listed:
            defects.append(f"{book} has chapters without a file: text may be missing")
        hrefs = [
            one.get("href", "").partition("#")[0]
            for one in listed
            if one is not None and one.get("media-type", "") in _CHAPTER_TYPES
        ]
        chapters = {href: _path(posixpath.dirname(book), href) for href in hrefs}
        defects += _defects_of(file, chapters.values(), _chapter_problem)
        if all(href == unquote(href) for href in hrefs):
            return defects, data
        return defects, _renamed(file, book, chapters)


def _renamed(file: zipfile.ZipFile, book: str, chapters: dict[str, str]) -> bytes:
    """Return an e-book whose chapters have the names that refer to them: kreuzberg 4.10 decodes no %20."""
    packed, names = io.BytesIO(), file.namelist()
    with zipfile.ZipFile(packed, "w") as copy:
        for name in ("mimetype", "META-INF/container.xml", book):
            copy.writestr(name, file.read(name))
        for href, name in chapters.items():
            if name in names:
                with suppress(*PART_ERRORS):
                    copy.writestr(_path(posixpath.dirname(book), quote(href)), file.read(name))
    return packed.getvalue()


def _relations(file: zipfile.ZipFile, part: str, defects: list[str] | None = None) -> Iterable[tuple[str, str]]:
    """Return the kind and the name of each part that a part refers to; "" refers to the main part."""
    folder, name = posixpath.split(part)
    root = part_root(file, posixpath.join(folder, "_rels", f"{name}.rels"), defects)
    return [
        (one.get("Type", "").rpartition("/")[2], _path(folder, one.get("Target", "")))
        for one in root
        if one.get("TargetMode") != "External"
    ]


def _path(folder: str, target: str) -> str:
    return posixpath.normpath(posixpath.join("/", folder, unquote(target))).lstrip("/")


def _defects_of(
    file: zipfile.ZipFile, names: Iterable[str], problem: Callable[[zipfile.ZipFile, str], str]
) -> list[str]:
    defects, there = list[str](), {name.casefold(): name for name in file.namelist()}
    for name in dict.fromkeys(names):
        if name.casefold() not in there:
            defects.append(f"{name} is missing, with its text")
            continue
        try:
            why = problem(file, there[name.casefold()])
        except (*PART_ERRORS, expat.ExpatError) as error:
            why = str(error)
        if why:
            defects.append(f"{name} is damaged ({why}): text may be missing")
    return defects


def _xml_problem(file: zipfile.ZipFile, name: str) -> str:
    with file.open(name) as stream:
        if name.endswith(".bin"):
            while stream.read(1 << 20):
                pass  # its checksum is at its end
        else:
            expat.ParserCreate().ParseFile(stream)
    return ""


def _chapter_problem(file: zipfile.ZipFile, name: str) -> str:
    # Readers accept any HTML, so only its end shows that it is whole. A NUL is half of a letter in UTF-16.
    return "" if _CHAPTER_END.search(file.read(name).replace(b"\0", b"")) else "it is cut off, or no text"
