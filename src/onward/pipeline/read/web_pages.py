"""Web pages: the article of a page, with its title, author and date."""

from __future__ import annotations

import logging
import re
from contextlib import suppress
from datetime import UTC, datetime

import trafilatura
from selectolax.lexbor import LexborHTMLParser

from onward.pipeline.read.charsets import clean, read_text
from onward.pipeline.read.message_reader import NoText, PageText

_log = logging.getLogger(__name__)
# Their warnings repeat our errors.
for _name in ("trafilatura", "htmldate"):
    logging.getLogger(_name).setLevel(logging.CRITICAL)

_MAX_ARTICLE_BYTES = 10_000_000
"""The article of a larger page takes minutes to find; such pages are tables or logs."""
_UNSEEN = "script, style, noscript, template, svg, head, iframe, object"
_BLANK_LINES = re.compile(r"\s*\n\s*\n\s*")
_META_CHARSET = re.compile(rb"""<meta[^>]{0,200}?charset\s*=\s*["']?\s*([\w.:-]{1,40})""", re.IGNORECASE)


def read_page(data: bytes, url: str, charset: str = "") -> PageText:
    """Return the article of a web page as Markdown, or, if none is found, all of its visible text."""
    if not charset and (claimed := _META_CHARSET.search(data[:4096])):
        charset = claimed[1].decode("ascii", "replace")
    html = read_text(data, charset)
    page = _read_article(html, url) if len(data) <= _MAX_ARTICLE_BYTES else None
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
        raise NoText(
            f"the page {url or title!r} has no text: it may be made by scripts in a browser; save what "
            "you see there as HTML or PDF and ingest that"
        )
    return PageText(title, page.author if page else "", page.date if page else None, text)


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
