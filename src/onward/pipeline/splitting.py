"""Split a text into pieces of bounded size that overlap a little, on the boundaries that a reader sees."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

from onward.words import open_tokenizer, split_words

MAX_TOKENS = 256
OVERLAP = 32
FEWEST_TOKENS = 32
"""The least that `max_tokens` may be: a single character may take five."""

# A long text is worked on in parts, so that memory stays bounded; many pieces long, so that it shows nowhere.
_PART = 65_536
_JOINED = "\u200d\ufe0f\u0300-\u036f\U0001f3fb-\U0001f3ff"  # what belongs to the character before it

_PARAGRAPH = r"\n[ \t\r]*\n"
_SENTENCE = r"[.!?][\"')\]]*(?=[ \n])|[。！？]"
_LINE = r"\n"
_HEADING = r"\n(?=#{1,6} )"


@dataclass(frozen=True, slots=True)
class _Boundaries:
    """Where a piece may end, best first, each with how full it must be by then; where an overlap may begin."""

    ends: tuple[tuple[re.Pattern[str], float], ...]
    starts: re.Pattern[str]


_TEXT = _Boundaries(
    ((re.compile(_PARAGRAPH), 0.5), (re.compile(_SENTENCE), 0.6), (re.compile(_LINE), 0.6)),
    re.compile(f"{_SENTENCE}|{_LINE}"),
)
_KINDS = {
    "markdown": _Boundaries(((re.compile(_HEADING), 0.3), *_TEXT.ends), _TEXT.starts),
    "code": _Boundaries(
        (
            (re.compile(_PARAGRAPH + r"(?=\S)"), 0.4),
            (re.compile(_PARAGRAPH), 0.5),
            (re.compile(_LINE + r"(?=[^\s)}\]])"), 0.6),
            (re.compile(_LINE), 0.3),
        ),
        re.compile(_LINE),
    ),
}


@dataclass(frozen=True, slots=True)
class Piece:
    """A piece of a text: `text` is exactly what stands there from `start` to `end`."""

    start: int
    end: int
    text: str
    tokens: int


def split(text: str, *, kind: str = "text", max_tokens: int = MAX_TOKENS, overlap: int = OVERLAP) -> list[Piece]:
    """Split a text into pieces of at most `max_tokens` that repeat up to `overlap` of the one before.

    A piece ends with a paragraph, a sentence, a line or a word, in this order of preference; headings come
    first in `kind="markdown"`, lines that are not indented in `kind="code"`. Every character that is not a
    space is in some piece. The same text always gives the same pieces.
    """
    if max_tokens < FEWEST_TOKENS:
        raise ValueError(f"max_tokens={max_tokens} is too few; give at least {FEWEST_TOKENS}")
    if not 0 <= overlap <= max_tokens // 2:
        raise ValueError(f"overlap={overlap} must be from 0 to half of max_tokens={max_tokens}")
    boundaries = _KINDS.get(kind, _TEXT)
    size = max(_PART, 64 * max_tokens)
    pieces: list[Piece] = []
    begin = 0
    while begin < len(text):
        part = _Part(text[begin : begin + size], begin, max_tokens)
        found = list(part.pieces(boundaries, overlap))
        begin += size
        if begin < len(text) and len(found) > 1:
            # Where the part ends is no boundary of the text: the last piece is made again with what follows.
            begin = found.pop().start
        pieces += found
    return pieces


def count_tokens(texts: Iterable[str]) -> list[int]:
    """Count the tokens of each text, as the built-in embedder does."""
    return list(map(_count_tokens, texts))


class _Part:
    """A part of a text as words, with where each stands and how many tokens came before it."""

    def __init__(self, text: str, offset: int, max_tokens: int) -> None:
        self._text = text
        self._offset = offset
        self._max_tokens = max_tokens
        words = split_words(text)
        counts = _counts(words)
        # A word too long to be left whole is cut anywhere; the tokens of its parts may not add up to its own.
        self._inexact = max(counts, default=0) > max_tokens // 4
        if self._inexact:
            words = [
                part
                for word, tokens in zip(words, counts, strict=True)
                for part in ([word] if tokens <= max_tokens // 4 else _cut(word, max_tokens))
            ]
            counts = _counts(words)
        self._words = words
        self._tokens = list(accumulate(counts, initial=0))
        self._starts = list(accumulate(map(len, words), initial=0))

    def pieces(self, boundaries: _Boundaries, overlap: int) -> Iterator[Piece]:
        new = first = self._skip(0)
        while new < len(self._words):
            last = self._fill(first, new)
            if first < new and self._count(first, last) > self._max_tokens:
                # So much blank lies between that the overlap and something new do not fit into one piece.
                first, last = new, self._fill(new, new)
            if self._skip(last) < len(self._words):
                last = self._end(first, new, last, boundaries)
            yield self._piece(first, last)
            new = self._skip(last)
            first = self._skip(self._overlap(first, last, boundaries, overlap))

    def _skip(self, first: int) -> int:
        """Go over what is blank."""
        while first < len(self._words) and self._words[first].isspace():
            first += 1
        return first

    def _fill(self, first: int, new: int) -> int:
        """Find how far a piece can reach; past the first new word, in any case."""
        last = bisect_right(self._tokens, self._tokens[first] + self._max_tokens) - 1
        # The first word counts differently where it follows no space.
        while last > new + 1 and self._count(first, last) > self._max_tokens:
            last -= 1
        return max(last, new + 1)

    def _end(self, first: int, new: int, last: int, boundaries: _Boundaries) -> int:
        """Find the best boundary before what would be too much."""
        end = self._starts[last]
        for pattern, fullness in boundaries.ends:
            full = self._tokens[first] + int(self._max_tokens * fullness)
            fewest = max(new + 1, bisect_left(self._tokens, full))
            if fewest >= last:
                continue
            best = 0
            # Begins a little before, for the boundary may be just there; ends later, for what must follow it.
            for match in pattern.finditer(self._text, max(0, self._starts[fewest] - 4), end + 8):
                if match.end() > end:
                    break
                best = match.end()
            if (cut := bisect_right(self._starts, best) - 1) >= fewest:
                return cut
        return last

    def _overlap(self, first: int, last: int, boundaries: _Boundaries, overlap: int) -> int:
        """Find where the next piece begins: with what of this one is to be repeated."""
        # Never more than half, so that each piece begins after the one before.
        most = min(overlap, (self._tokens[last] - self._tokens[first]) // 2)
        start = max(first + 1, bisect_left(self._tokens, self._tokens[last] - most))
        if start >= last:
            return last
        match = boundaries.starts.search(self._text, self._starts[start] - 1, self._starts[last])
        if match is None:
            return start
        cut = bisect_left(self._starts, match.end())
        return cut if self._skip(cut) < last else start

    def _piece(self, first: int, last: int) -> Piece:
        text = self._text[self._starts[first] : self._starts[last]]
        start = self._offset + self._starts[first] + len(text) - len(text.lstrip())
        text = text.strip()
        return Piece(start, start + len(text), text, self._count(first, last))

    def _count(self, first: int, last: int) -> int:
        """Count the tokens from a word that is not blank up to another, without the blanks at the end."""
        while self._words[last - 1].isspace():
            last -= 1
        if self._inexact or last - first == 1:
            return _count_tokens(self._text[self._starts[first] : self._starts[last]].strip())
        begin, end = _counts((" " + self._words[first].lstrip(), self._words[last - 1].rstrip()))
        return begin + self._tokens[last - 1] - self._tokens[first + 1] + end


def _cut(word: str, max_tokens: int) -> list[str]:
    """Cut a word anywhere, but not within what is seen as one character, and rather after a full stop."""
    longest = max(3, max_tokens // 16)
    return re.findall(rf"(?s)[^。！？]{{1,{longest}}}[。！？{_JOINED}]{{0,4}}|[。！？]", word)


def _counts(words: Sequence[str]) -> list[int]:
    return list(map(len, open_tokenizer().of_words(words)))


def _count_tokens(text: str) -> int:
    return len(open_tokenizer().tokens(text))
