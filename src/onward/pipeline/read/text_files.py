"""Text files: Markdown, reStructuredText, code and plain text, with their title."""

from __future__ import annotations

import re
from pathlib import PurePosixPath

from onward.pipeline.read.charsets import read_text
from onward.pipeline.read.page_text import MAX_TITLE_CHARACTERS, PageText

_FENCE = re.compile(r" {0,3}(`{3,}|~{3,})")
_FRONT_TITLE = re.compile(r"title:[ \t]*+(.*\S)", re.IGNORECASE)
_ATX = re.compile(r" {0,3}#{1,6}[ \t]+(.*?)(?:[ \t]+#+)?[ \t]*$")
_SETEXT = re.compile(r" {0,3}(?:=+|-{2,})[ \t]*$")
_RULE = re.compile(r"([!-/:-@\[-`{-~])\1{2,}$")
_TITLE_LINES = 400  # the lines in which a title is searched


def read_text_file(data: bytes, kind: str, name: str, charset: str = "") -> PageText:
    """Return the text of a file, with its first heading or else its name."""
    text = read_text(data, charset)
    return PageText(read_title(text, kind, name), "", None, text)


def read_title(text: str, kind: str, path: str) -> str:
    """Return the first heading of Markdown or reST, or else the name of the file."""
    # The expressions take the square of the spaces in a line.
    lines = [line[:MAX_TITLE_CHARACTERS] for line in text.split("\n", _TITLE_LINES)[:_TITLE_LINES]]
    find_title = {"markdown": _markdown_title, "rst": _rst_title}.get(kind)
    return (find_title(lines) if find_title else "") or PurePosixPath(path).name


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
