"""Web pages: the article of a page, with its title, author and date."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from datetime import UTC, datetime
from html import unescape

import trafilatura
from selectolax.lexbor import LexborHTMLParser

from onward.pipeline.read.charsets import clean, read_text
from onward.pipeline.read.html_text import takes_long, text_between_tags
from onward.pipeline.read.page_text import NoText, PageText

_log = logging.getLogger(__name__)
# Their warnings repeat our errors.
for _name in ("trafilatura", "htmldate"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_MAX_ARTICLE_BYTES = 10_000_000
"""The article of a larger page takes minutes to find; such pages are tables or logs."""
_WHOLE_PAGE = "read as all of its visible text: its article takes too long to find"
_UNSEEN = "script, style, noscript, template, svg, head, iframe, object"
_UNSEEN_TAG = re.compile(r"<(/?)(script|style|noscript|template|head)\b[^<>]*>", re.IGNORECASE)
_TITLE = re.compile(r"<title\b[^>]{0,200}>([^<]{1,1000})", re.IGNORECASE)
_BLANK_LINES = re.compile(r"(?<!\s)\s*\n\s*\n\s*")  # looked for at the beginning of a gap only
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*+=\s*+["']?\s*+([\w.:-]{1,40})""", re.IGNORECASE)


def read_page(data: bytes, url: str, charset: str = "", *, find_article: bool = True) -> PageText:
    """Return the article of a web page as Markdown, or, if none is found, all of its visible text."""
    if not charset and (claimed := _META_CHARSET.search(data[:4096])):
        charset = claimed[1].decode("ascii", "replace")
    html = read_text(data, charset)
    if takes_long(html):
        return _read_simply(html, url)
    page = _read_article(html, url) if find_article and len(data) <= _MAX_ARTICLE_BYTES else None
    tree = LexborHTMLParser(html)
    heads = [node for selector in ("title", "h1") if (node := tree.css_first(selector)) is not None]
    titles = [page.title if page else "", *(" ".join(clean(node.text()).split()) for node in heads)]
    title = next(filter(None, titles), "")
    text = page.text if page else ""
    if not text:
        for unseen in tree.css(_UNSEEN):
            unseen.decompose()
        visible = tree.root.text(separator="\n", strip=True) if tree.root is not None else ""
        text = _BLANK_LINES.sub("\n\n", clean(visible)).strip()
    if not text:
        raise _no_text(url or title)
    return PageText(
        title,
        page.author if page else "",
        page.date if page else None,
        text,
        () if find_article else (_WHOLE_PAGE,),
    )


def _read_simply(html: str, url: str) -> PageText:
    """Return the text between the tags of a page that no browser would show: a parser takes minutes for it."""
    found = _TITLE.search(html)
    title = " ".join(clean(unescape(found[1])).split()) if found else ""
    text = clean(text_between_tags(_without_unseen(html))).strip()
    if not text:
        raise _no_text(url or title)
    return PageText(
        title, "", None, text, ("read as text between tags: it has too many nested tags or attributes",)
    )


def _without_unseen(html: str) -> str:
    kept, start, unseen = list[str](), 0, ""
    for tag in _UNSEEN_TAG.finditer(html):
        if not unseen and not tag[1]:
            kept.append(html[start : tag.start()])
            start, unseen = tag.start(), tag[2].lower()
        elif tag[1] and tag[2].lower() == unseen:
            start, unseen = tag.end(), ""
    return "".join((*kept, html[start:]))  # also what follows an element that is not closed


def _no_text(place: str) -> NoText:
    return NoText(
        f"the page {place!r} has no text: it may be made by scripts in a browser; save what you see there as HTML "
        "or PDF and ingest that"
    )


def _read_article(html: str, url: str) -> PageText | None:
    try:
        found = trafilatura.bare_extraction(
            html,
            url=url or None,
            include_formatting=True,  # headings, lists and emphasis as in Markdown
            with_metadata=True,
            include_comments=False,
            # Otherwise any number on the page may be read as a date.
            date_extraction_params={"extensive_search": False, "original_date": True},
        )
    except Exception as error:  # of any type: real pages trigger bugs in the parser
        _log.warning("no article found in %s: %s", url, type(error).__name__)
        return None
    if found is None or isinstance(found, dict):
        return None
    day = None
    with suppress(ValueError):
        day = datetime.fromisoformat(found.date).replace(tzinfo=UTC).timestamp() if found.date else None
    title, text = clean(found.title or "").strip(), clean(found.text or "").strip()
    return PageText(title, clean(found.author or ""), day, text)
