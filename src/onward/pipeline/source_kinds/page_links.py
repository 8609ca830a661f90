"""The parts of a web page that a crawler needs: links, canonical address, and whether it may be stored."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from html import unescape
from pathlib import Path

from selectolax.lexbor import LexborHTMLParser

from onward.pipeline.read.charsets import codec_of
from onward.pipeline.read.html_text import html_to_text, takes_long
from onward.pipeline.source_kinds.web_addresses import normalized
from onward.pipeline.source_kinds.web_content import is_html

AGENT = "onward"  # the name that robots.txt and the directives of pages use
MAX_HTML_BYTES = 10_000_000  # of one page that are read for links
MAX_LINKS = 5_000  # of one page
_DIGEST_BYTES = 10
_HREF = re.compile(r"<a\s[^<>]{0,500}?href\s{0,9}=\s{0,9}[\"']?([^\"'\s<>]{1,2000})", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s{0,9}=\s{0,9}[\"']?([\w.:-]{1,40})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Directives:
    """What may be done with a page, from its header `X-Robots-Tag` or its `<meta name=robots>`."""

    index: bool = True
    follow: bool = True

    def __and__(self, other: Directives) -> Directives:
        return Directives(self.index and other.index, self.follow and other.follow)


def read_directives(text: str) -> Directives:
    """Read directives such as `noindex, otherbot: nofollow`; those that name another crawler do not count."""
    words, agent = set(), AGENT
    for part in text.lower().split(","):
        name, colon, rest = part.partition(":")
        if colon and name.strip() != "unavailable_after":
            agent, part = name.strip(), rest  # noqa: PLW2901 - what follows the name
        if agent in (AGENT, "*"):
            words.add(part.strip())
    return Directives(
        "noindex" not in words and "none" not in words, "nofollow" not in words and "none" not in words
    )


@dataclass(frozen=True, slots=True)
class PageLinks:
    """The parts of a web page that a crawler needs."""

    links: tuple[str, ...] = ()  # normalised, each once, in the order of the page; none with "nofollow"
    canonical: str | None = None
    directives: Directives = Directives()
    text_digest: str = ""  # of its visible text; "" if it has none


def read_page(data: bytes, url: str, media_type: str) -> PageLinks:
    """Read the HTML of the page at a URL."""
    html = _decoded(data, media_type)
    text = html_to_text(html)
    digest = short_digest(text.encode("utf-8", "replace")) if text else ""
    if takes_long(html):  # no page that a person made
        found = (normalized(link, url) for link in written_links(html))
        return PageLinks(tuple(dict.fromkeys(filter(None, found)))[:MAX_LINKS], text_digest=digest)
    page = LexborHTMLParser(html)
    base, canonical, directives = url, None, Directives()
    if (first := page.css_first("base[href]")) is not None:
        base = normalized(first.attributes.get("href") or "", url) or url
    for meta in page.css("meta[name][content]"):
        if (meta.attributes["name"] or "").strip().lower() in ("robots", AGENT):
            directives &= read_directives(meta.attributes["content"] or "")
    for link in page.css("link[rel][href]"):
        if canonical is None and "canonical" in (link.attributes["rel"] or "").lower().split():
            canonical = normalized(link.attributes["href"] or "", base)
    links = dict.fromkeys(_links(page, base))
    title = page.css_first("title")
    if title is not None and digest:
        digest = short_digest(f"{digest} {title.text()}".encode("utf-8", "replace"))
    return PageLinks(tuple(links)[:MAX_LINKS], canonical, directives, digest)


def written_links(html: str) -> Iterator[str]:
    """Yield the targets of the links of a page as they are written, in its order."""
    if takes_long(html):
        yield from (unescape(match[1]) for match in _HREF.finditer(html))
    else:
        yield from (node.attributes["href"] or "" for node in LexborHTMLParser(html).css("a[href]"))


def _links(page: LexborHTMLParser, base: str) -> Iterator[str]:
    for node in page.css("a[href], area[href], iframe[src], frame[src]"):
        attributes = node.attributes
        if "nofollow" in (attributes.get("rel") or "").lower().split():
            continue
        link = normalized(attributes.get("href") or attributes.get("src") or "", base)
        if link is not None:
            yield link


def _decoded(data: bytes, media_type: str) -> str:
    # Addresses are ASCII nearly always, so that a guess is enough here.
    match = _CHARSET.search(media_type) or _CHARSET.search(data[:2_000].decode("latin-1"))
    codec = codec_of(match[1]) if match is not None else None
    return data.decode(codec or "utf-8", "replace")


def short_digest(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=_DIGEST_BYTES).hexdigest()


def file_digest(path: Path) -> str:
    """Return the digest of a file of any size."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, partial(hashlib.blake2b, digest_size=_DIGEST_BYTES)).hexdigest()


def html_of(path: Path, media_type: str) -> bytes | None:
    """Return the beginning of a downloaded file if it is HTML, or None."""
    with path.open("rb") as file:
        if not is_html(media_type) and (media_type or file.read(1_000).lstrip()[:1] != b"<"):
            return None
        file.seek(0)
        return file.read(MAX_HTML_BYTES)
