"""Turn the HTML of mails into text."""

from __future__ import annotations

import re
from collections import Counter
from html import unescape

from selectolax.lexbor import LexborHTMLParser, LexborNode

MAX_HTML_CHARACTERS = 2_000_000
_MAX_QUOTE_DEPTH = 20

_MANY_TAGS = 5_000
_MAX_DEPTH = 500
_LONG_TAG = 20_000
_MANY_ATTRIBUTES = 5_000
_QUOTED_VALUE = re.compile(r'"[^"]*"')
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]{0,20})")
_ANY_TAG = re.compile(r"<[^<>]*>")
_NO_CHARACTER = re.compile(
    r"&#0*[0-9]{8,};?"
)  # a number that is too large; Python refuses one of thousands of digits
_CLOSED_BY_NATURE = frozenset(
    {"br", "img", "hr", "input", "meta", "link", "wbr", "area", "base", "col", "embed", "source", "track"}
    | {"p", "li", "td", "th", "tr", "dt", "dd", "option", "tbody"}
)
_DROPPED = frozenset(
    "head script style title template noscript object svg select textarea iframe img".split()  # noqa: SIM905
)
_PARAGRAPHS = {"p", "blockquote", "ul", "ol", "dl", "table", "pre", "hr", *(f"h{n}" for n in range(1, 7))}
_BLOCKS = _PARAGRAPHS | {
    "address", "article", "aside", "body", "center", "dd", "details", "div", "dt", "fieldset", "figure",
    "footer", "form", "header", "li", "main", "nav", "section", "tr", "caption", "tbody", "thead",
}  # fmt: skip
_BULLET = "- "
_HIDDEN = re.compile(r"display\s{0,9}:\s{0,9}none", re.IGNORECASE)
_SPACES = re.compile(r"[ \t\n\r\f\xa0\u200b-\u200d\u00ad\ufeff\u034f]+")


def html_to_text(html: str) -> str:
    """Return the visible text of an HTML page; quotes become lines that start with "> "."""
    html = html[:MAX_HTML_CHARACTERS]
    if takes_long(html):
        return text_between_tags(html)
    page = _TextLines()
    node = LexborHTMLParser(html).root
    # Without recursion: mail nests thousands of elements. `page` needs the end of each element, too.
    while node is not None:
        following = node.child if page.enter(node) else None
        while following is None and node is not None:
            page.leave(node)
            following = node.next
            if following is None:
                node = node.parent
        node = following
    return page.text()


def text_between_tags(html: str) -> str:
    """Return the text of a page that is not parsed; each tag ends a line."""
    text = unescape(_NO_CHARACTER.sub("\ufffd", _ANY_TAG.sub("\n", html)))
    return "\n".join(filter(None, (_SPACES.sub(" ", line).strip() for line in text.split("\n"))))


def takes_long(html: str) -> bool:
    """Return whether parsing takes long: the square of the open elements, or of a tag's attributes."""
    if len(html) > _LONG_TAG:
        for text in (html, _QUOTED_VALUE.sub('""', html)):
            for tag in text.split("<"):
                if len(tag) > _LONG_TAG and tag[:1].isalpha() and len(tag.split()) > _MANY_ATTRIBUTES:
                    return True
    if html.count("<") <= _MANY_TAGS:
        return False
    open_elements: Counter[str] = Counter()
    depth = 0
    for closing, tag in _TAG.findall(html):
        name = tag.lower()
        if not closing and name not in _CLOSED_BY_NATURE:
            open_elements[name] += 1
            depth += 1
            if depth > _MAX_DEPTH:
                return True
        elif closing and open_elements[name]:
            open_elements[name] -= 1
            depth -= 1
    return False


def _is_hidden(node: LexborNode) -> bool:
    style = node.attributes.get("style")
    return bool(style and _HIDDEN.search(style))


class _TextLines:
    def __init__(self) -> None:
        self._lines: list[tuple[int, str]] = []
        self._line: list[str] = []
        self._quotes = self._pre = 0  # how many of these elements are open

    def enter(self, node: LexborNode) -> bool:
        """Begin an element; return False to skip its content."""
        tag = node.tag
        if tag == "-text":
            self._write(node.text_content or "")
            return False
        if tag is None or tag[:1] in "-!" or tag in _DROPPED:
            return False
        if tag == "br":
            self._end_line(keep_empty=True)
            return False
        if _is_hidden(node):
            return False
        if tag in _BLOCKS:
            self._open_block(tag)
        elif tag in ("td", "th") and self._line:
            self._line.append(" ")
        if tag == "blockquote":
            self._quotes += 1
        elif tag == "pre":
            self._pre += 1
        elif tag == "li":
            self._line.append(_BULLET)
        return True

    def leave(self, node: LexborNode) -> None:
        tag = node.tag
        if tag not in _BLOCKS or _is_hidden(node):
            return
        if tag == "li" and self._line == [_BULLET]:
            self._line.clear()
        if tag == "blockquote":
            self._end_line()
            self._quotes -= 1
            if self._lines and not self._lines[-1][1]:
                self._lines[-1] = (self._quotes, "")  # an empty line after a quote is no part of the quote
        self._open_block(tag)
        if tag == "pre":
            self._pre -= 1

    def text(self) -> str:
        self._end_line()
        while self._lines and not self._lines[-1][1]:
            self._lines.pop()
        return "\n".join("> " * min(quotes, _MAX_QUOTE_DEPTH) + line for quotes, line in self._lines)

    def _write(self, text: str) -> None:
        if self._pre:
            first, *others = text.replace("\r\n", "\n").split("\n")
            self._line.append(first)
            for line in others:
                self._end_line(keep_empty=True)
                self._line.append(line)
        else:
            self._line.append(_SPACES.sub(" ", text))

    def _open_block(self, tag: str) -> None:
        if self._line == [_BULLET]:
            return  # the first paragraph of a list item follows its bullet
        self._end_line()
        if tag in _PARAGRAPHS and self._lines and self._lines[-1][1]:
            self._lines.append((self._quotes, ""))

    def _end_line(self, *, keep_empty: bool = False) -> None:
        line = "".join(self._line)
        line = line.rstrip() if self._pre else _SPACES.sub(" ", line).strip()
        self._line.clear()
        # At most one empty line in a row.
        if line or (keep_empty and self._lines and (self._pre or self._lines[-1][1])):
            self._lines.append((self._quotes, line))
