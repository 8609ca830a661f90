"""Text files: decode bytes of any encoding, and find the title."""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass
from pathlib import PurePosixPath

import cchardet

from onward import Permanent
from onward.pipeline.read.charsets import clean, codec_of

_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # before UTF-16, whose mark it begins with
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SAMPLE_BYTES = 200_000
"""Bytes that the encoding is detected from: more only take longer."""

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_TITLE = re.compile(r"title:[ \t]*(.*\S)", re.IGNORECASE)
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
_TITLE_LINES = 400
"""The lines in which a title is searched."""


@dataclass(frozen=True, slots=True)
class PageText:
    """The text of a web page or a PDF, with its title, author and date."""

    title: str
    author: str
    date: float | None
    """Unix seconds of the day of publication, in UTC."""
    text: str


class NoText(Permanent):
    """The page or PDF has no text."""


def read_text(data: bytes, charset: str = "") -> str:
    """Decode text of an unknown encoding, or of the claimed `charset`; never fails.

    What cannot be decoded or stored, such as NUL and lone surrogates, becomes U+FFFD. Line ends become `\\n`.
    """
    return clean(_decode(data, charset))


def read_title(text: str, kind: str, path: str) -> str:
    """Return the first heading of Markdown or reST, or else the name of the file."""
    lines = text.split("\n", _TITLE_LINES)[:_TITLE_LINES]
    if kind == "markdown":
        title = _markdown_title(lines)
    elif kind == "rst":
        title = _rst_title(lines)
    else:
        title = ""
    return title or PurePosixPath(path).name


def _decode(data: bytes, charset: str) -> str:
    for mark, encoding in _BOMS:
        if data.startswith(mark):
            return data[len(mark) :].decode(encoding, "replace")
    try:
        # No other encoding is valid UTF-8 by chance, so this is right even against the claimed charset.
        return data.decode("utf-8")
    except UnicodeDecodeError:
        pass
    for guess in (charset, cchardet.detect(data[:_SAMPLE_BYTES])["encoding"]):
        try:
            if guess and (codec := codec_of(guess)):
                return data.decode(codec)
        except ValueError:
            continue
    # Either UTF-8 with some damage, or cp1252, the most common other encoding.
    text = data.decode("utf-8", "replace")
    return text if text.count("\ufffd") * 100 <= len(text) else data.decode("cp1252", "replace")


def _markdown_title(lines: list[str]) -> str:
    start, title = _skip_front_matter(lines)
    if title:
        return title
    fence, before = "", ""
    for line in lines[start:]:
        mark = _FENCE.match(line)
        if fence:
            if mark and mark[1].startswith(fence) and not line.strip().strip(fence[0]):
                fence = ""
            continue
        if mark:
            fence, before = mark[1], ""
        elif heading := _ATX.match(line):
            if heading[1].strip():
                return heading[1].strip()
        elif before and _SETEXT.match(line):
            return before
        else:
            # An underlined heading is the line above; a list, a quote or indented code is no heading.
            before = "" if line.startswith(("    ", "\t", ">", "- ", "* ", "+ ", "|")) else line.strip()
    return ""


def _skip_front_matter(lines: list[str]) -> tuple[int, str]:
    if not lines or lines[0].rstrip() != "---":
        return 0, ""
    title = ""
    for number, line in enumerate(lines[1:], 1):
        if line.rstrip() in ("---", "..."):
            return number + 1, title
        if not title and (match := _FRONT_TITLE.match(line)):
            title = match[1].strip("\"'").strip()
    return 0, ""


def _rst_title(lines: list[str]) -> str:
    for above, line, below in zip(["", *lines], lines, [*lines[1:], ""], strict=False):
        text, rule = line.strip(), below.strip()
        if not text or _RULE.match(text) or not _RULE.match(rule) or line.startswith("..") or below[:1] == " ":
            continue
        # An indented title has a line above it, too; the rule may be a little shorter than the text.
        if (line[0] != " " or _RULE.match(above.strip())) and len(rule) >= min(len(text), 4):
            return text
    return ""
