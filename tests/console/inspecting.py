"""Finds in a page what could run, load or send something that is not the console's own."""

from __future__ import annotations

from html.parser import HTMLParser

NEVER = frozenset({"applet", "base", "embed", "frame", "iframe", "math", "object", "style", "template", "video"})
LOADING = frozenset({"action", "background", "data", "formaction", "poster", "src", "srcset", "xlink:href"})
DRAWN = frozenset({"circle", "g", "line", "path", "rect", "svg", "text", "title", "polyline", "polygon", "defs"})
"""What the console draws with."""


class _Inspector(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.script = False

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.script = tag == "script"
        if tag in NEVER or (tag == "meta" and "http-equiv" in given):
            self.found.append(f"<{tag}>")
        for name, value in attrs:
            text = (value or "").strip()
            if name.startswith("on") or name in ("style", "srcdoc", "ping"):
                self.found.append(f"<{tag} {name}={text!r}>")
            if name in LOADING and not (text.startswith("/") and not text.startswith("//")):
                self.found.append(f"<{tag} {name}={text!r}>")
            if name == "href" and not _is_link(tag, text, given.get("rel") or ""):
                self.found.append(f"<{tag} href={text!r}>")
        if tag == "script" and not str(given.get("src", "")).startswith("/static/"):
            self.found.append("<script> that is not ours")

    def handle_data(self, data: str) -> None:
        if self.script and data.strip():
            self.found.append(f"inline script {data[:80]!r}")

    def handle_endtag(self, tag: str) -> None:
        self.script = False


def _is_link(tag: str, href: str, rel: str) -> bool:
    if href.startswith("#") or (href.startswith("/") and not href.startswith(("//", "/\\"))):
        return True
    outside = href.startswith(("http://", "https://", "mailto:"))
    return tag == "a" and outside and {"noopener", "noreferrer", "nofollow"} <= set(rel.split())


def harm_in(page: str) -> list[str]:
    """What a page should not have."""
    inspector = _Inspector()
    inspector.feed(page)
    inspector.close()
    return inspector.found
