"""Markdown that a model has written, as HTML that can do no harm: text, lists, code, and links to be clicked."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from urllib.parse import urlsplit

from markdown_it import MarkdownIt
from markdown_it.token import Token
from markupsafe import Markup

from onward.ops.text.format import harmless

REL = "noopener noreferrer nofollow"
LONGEST = 200_000
_CITED = re.compile(r"\[(\d{1,4})\]")
_SOURCES = "\n### Sources\n"
_NUMBERED = re.compile(r"\s*$|\d+\. ")
_SCHEMES = ("http", "https", "mailto")


def render_markdown(text: str, citations: Mapping[int, str]) -> Markup:
    """Render a text; each `[n]` of `citations` becomes a link to what it names.

    Images, HTML and definitions of links are shown as the text they are.
    """
    parser = _parser()
    tokens = parser.parse(harmless(text)[:LONGEST])
    for token in tokens:
        if token.type in ("heading_open", "heading_close"):
            token.tag = f"h{max(3, int(token.tag[1:]))}"  # the page has headings of its own above it
        if token.children:
            token.children = _with_citations(token.children, citations)
    return Markup(parser.renderer.render(tokens, parser.options, {}))  # the parser has escaped all text


def without_sources(text: str) -> str:
    """Return a summary without the list of its sources at the end, which a page shows in its own way."""
    before, mark, listed = text.rpartition(_SOURCES)
    return before if mark and all(_NUMBERED.match(line) for line in listed.split("\n")) else text


@cache
def _parser() -> MarkdownIt:
    parser = MarkdownIt("commonmark", {"html": False})
    parser.disable(["image", "reference", "html_block", "html_inline"])
    parser.validateLink = _is_harmless  # type: ignore[method-assign]
    return parser


def _is_harmless(url: str) -> bool:
    try:
        parts = urlsplit(url.strip())
    except ValueError:
        return False
    return parts.scheme in _SCHEMES and (parts.scheme == "mailto" or bool(parts.netloc))


def _with_citations(children: Sequence[Token], citations: Mapping[int, str]) -> list[Token]:
    found: list[Token] = []
    inside = 0
    for token in children:
        if token.type == "link_open":
            inside += 1
            token.attrSet("rel", REL)
        elif token.type == "link_close":
            inside -= 1
        if token.type != "text" or inside:
            found.append(token)
            continue
        # Of the pieces every second one is a number.
        for place, piece in enumerate(_CITED.split(token.content)):
            target = citations.get(int(piece)) if place % 2 else None
            if target is not None:
                link = Markup('<a class="cite" href="{}">{}</a>').format(target, piece)
                found.append(Token("html_inline", "", 0, content=str(link)))
            elif piece:
                found.append(Token("text", "", 0, content=f"[{piece}]" if place % 2 else piece))
    return found
