"""The words of texts and queries: the one definition that indexing, searching and excerpts share.

A token is a run of letters and digits, with what joins them in names such as `read_message`, `app.py` or `e-mail`;
a slash or a colon ends it. It becomes index terms: its parts (`readMessage` has two, too) in lower case, stemmed,
without accents, and the whole as one more term, so that an exact name ranks first. The whole keeps what joins it,
but not lone hyphens: `e-mail` and `email` have a term in common, and so have `readMessage` and `readmessage`.

A word with accents may have two terms: stemming needs accents in many languages, but people leave them out. One is
the stem without its accents, the other the stem of the word without accents. A query has both as alternatives.

Runs of Chinese, Japanese, Korean and Thai become overlapping pairs of characters; a lone character is a term of
its own. So is a Japanese character with an ending after it, because endings vary. To find a text by one such
character, search for all terms that begin with it.

Words of more than `MAX_TERM` characters are left out: they are encoded data. Parts of a longer compound stay.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterator
from functools import lru_cache
from itertools import chain, islice, pairwise
from operator import add
from typing import NamedTuple

from onward.search.folding import HAN, HIRAGANA, MARKS, UNSPACED, fold, lower, normal_places, normalise
from onward.search.languages import (
    LANGUAGES,
    Stems,
    detect_language,
    query_stop_words,
    question_beginnings,
    rules,
    stems,
    stop_words,
)

__all__ = [
    "LANGUAGES",
    "MAX_TERM",
    "add_weights",
    "all_terms",
    "detect_language",
    "is_left_out",
    "is_question",
    "is_stop_word",
    "query_parts",
    "query_terms",
    "spans",
    "terms",
]

Span = tuple[int, int, tuple[str, ...]]  # start, end, terms

MAX_TERM = 64
MAX_KNOWN_TOKENS = 50_000  # of one language, whose terms are kept: about 13 MB
MAX_KNOWN_SPANS = 20_000  # and whose spans are kept: about 10 MB
MAX_KNOWN_LANGUAGES = 4
MAX_CASED_PARTS = 8  # a word with more changes of case is encoded data, not an identifier

# Behind a token: what a contraction leaves ('s, 't, …), or ++ and # for C++ and C#.
_TAIL = r"(?:['’](?:[sStTdDmM]|ll|LL|re|RE|ve|VE)(?!\w)|\+\+(?![\w+])|\#(?!\w))?"
_ASCII_TOKENS = re.compile(rf"[A-Za-z0-9]\w*+(?:[-.@]\w++)*+{_TAIL}", re.ASCII)
_WORD = rf"\w*+(?:[{MARKS}]++\w*+)*+"
_TOKENS = re.compile(rf"[^\W_]{_WORD}(?:[-.@]\w{_WORD})*+{_TAIL}")
_RUNS = re.compile(
    rf"([{UNSPACED}]+)|([^\W_{UNSPACED}](?:[^\W_{UNSPACED}]|(?![{UNSPACED}])[{MARKS}])*)|_*[^\w]_*|_+", re.DOTALL
)
_TAILED = re.compile(r"(.+?)(?:['’](\w+)|\+\+|\#)", re.DOTALL)
_SIGNED = frozenset(("c++", "c#", "f#", "g++"))
_UNSPACED = re.compile(f"[{UNSPACED}]+")
_CHARACTER_WITH_ENDING = re.compile(f"(?<![{HAN}])[{HAN}](?=[{HIRAGANA}])")
# Where a new word begins in readMessage, HTTPServer, Http2Server; not in PDFs.
_CASE_CHANGES = re.compile("(?<=[a-zß-öø-ÿ])(?=[A-ZÀ-ÖØ-Þ])|(?<=[A-ZÀ-ÖØ-Þ0-9])(?=[A-ZÀ-ÖØ-Þ][a-zß-öø-ÿ]{2})")
_ACRONYMS = re.compile("([A-ZÀ-ÖØ-Þ]{2,})s")  # the stemmers do not know that PDFs are more than one
_NAME_AND_NUMBER = re.compile(r"([^\W\d_]{3,})([0-9]{1,4})")
_HEX = re.compile("[0-9a-fA-F]{7,}")
_VERSION = re.compile(r"[vV](?=[0-9]+(?:\.[0-9]+)+(?:[-.\w]*)$)")
# Encoded data: three or more full lines, or one very long word; the latter only in a text with a long line.
MIN_ENCODED = 180  # Characters
_ENCODED_LINES = re.compile(r"\n(?:[A-Za-z0-9+/]{60,}={0,2}\r?\n){3,}(?:[A-Za-z0-9+/]+={0,2}(?!\S))?")
_LONG_LINE = re.compile(r"\n[^\n]{400}")
_ENCODED_WORD = re.compile(r"(?<![A-Za-z0-9+/])[A-Za-z0-9+/]{200,}={0,2}")


class _Piece(NamedTuple):
    """A part of a token in lower case and its place; an extra one is the whole, or a character of a pair."""

    start: int
    end: int
    text: str
    extra: bool = False


def terms(text: str, language: str = "") -> list[str]:
    """Return the index terms of a text in order, without the stop words of its language."""
    text = _without_encoded_data(text)
    return list(chain.from_iterable(map(_known_terms(rules(language)).__getitem__, _tokens(text).findall(text))))


def add_weights(weights: dict[str, int], text: str, weight: int, language: str = "") -> int:
    """Add a weight for each occurrence of each of the `terms` of a text; return what was added in all."""
    text = _without_encoded_data(text)
    known = _known_terms(rules(language))
    added = 0
    # A text repeats its tokens: each is looked up once.
    for token, count in Counter(_tokens(text).findall(text)).items():
        found, more = known[token], count * weight
        for term in found:
            weights[term] = weights.get(term, 0) + more
        added += more * len(found)
    return added


def all_terms(text: str, language: str = "") -> list[str]:
    """Return the index terms of a text in order, with stop words: for titles, names and paths."""
    return [term for _, _, found in spans(text, language) for term in found]


def spans(text: str, language: str = "") -> Iterator[Span]:
    """Yield start, end and terms of each word of a text, with stop words; together they are `all_terms`.

    The parts of a compound come one by one, then the whole. Pairs of characters overlap.
    """
    text = _without_encoded_data(text)
    known = _known_spans(rules(language))
    for match in _tokens(text).finditer(text):
        at = match.start()
        for start, end, found in known[match[0]]:
            yield at + start, at + end, found


class QueryPart(NamedTuple):
    """A part of a query word: the index terms it may have, and the languages whose texts leave it out."""

    terms: tuple[str, ...]
    left_out: frozenset[str]  # as `rules` names them


def query_parts(word: str, languages: Collection[str], *, whole: bool = True) -> tuple[QueryPart, ...]:
    """Return the parts of a query word, each as the index terms it may have in the languages of the store.

    The whole of a compound comes after its parts; `whole=False` leaves it out, for a search that needs every part.
    Parts of a compound that are stop words in all languages are left out: texts do not have them as terms.
    """
    codes = sorted({rules(language) for language in languages or ("",)})
    pieces = [piece for token in _tokens(word).findall(word) for piece in _pieces(normalise(token))]
    found: dict[tuple[str, ...], frozenset[str]] = {}
    for piece in pieces:
        in_index = [code for code in codes if piece.text not in stop_words(code)]
        if (piece.extra and not whole) or (not in_index and len(pieces) > 1):
            continue
        alternatives = chain.from_iterable(_terms(piece.text, stems(code)) for code in in_index or codes)
        found[tuple(dict.fromkeys(alternatives))] = frozenset(codes).difference(in_index)
    return tuple(QueryPart(*one) for one in found.items())


def query_terms(word: str, languages: Collection[str], *, whole: bool = True) -> tuple[tuple[str, ...], ...]:
    """Return the index terms of each part of a query word; see `query_parts`."""
    return tuple(part.terms for part in query_parts(word, languages, whole=whole))


def is_stop_word(word: str, languages: Collection[str]) -> bool:
    """Return whether a query word says nothing about what is searched, in one of the languages of the store."""
    parts = [piece.text for token in _tokens(word).findall(word) for piece in _pieces(normalise(token))]
    words = query_stop_words(frozenset(map(rules, languages or ("",))))
    return bool(parts) and words.issuperset(parts)


def is_left_out(word: str, languages: Collection[str]) -> bool:
    """Return whether texts do not have a query word as a term, because it is a stop word in all languages."""
    parts = [piece.text for token in _tokens(word).findall(word) for piece in _pieces(normalise(token))]
    codes = {rules(language) for language in languages or ("",)}
    return bool(parts) and all(part in stop_words(code) for code in codes for part in parts)


def is_question(text: str, languages: Collection[str]) -> bool:
    """Return whether a query is a question: it begins with a question word, or ends with a question mark."""
    if text.rstrip().endswith(("?", "？")):
        return True
    found = _tokens(text).match(text.strip())
    words = question_beginnings(frozenset(map(rules, languages or ("",))))
    return found is not None and any(piece.text in words for piece in islice(_pieces(normalise(found[0])), 1))


class _KnownTerms(dict[str, tuple[str, ...]]):
    """The terms of tokens that were seen before, without stop words."""

    def __init__(self, language: str) -> None:
        self._stems = stems(language)
        self._stop_words = stop_words(language)

    def __missing__(self, token: str) -> tuple[str, ...]:
        if token.isascii() and (token.islower() or token.istitle()) and token.isalpha() and len(token) <= MAX_TERM:
            word = token.lower()  # the same as below, for most words
            found = () if word in self._stop_words else self._stems(word)
        elif _UNSPACED.fullmatch(normal := normalise(token)):
            found = tuple(term for term in _pair_terms(normal) if term not in self._stop_words)
        else:
            pieces = (piece.text for piece in _pieces(normal) if piece.text not in self._stop_words)
            found = tuple(term for text in pieces for term in _terms(text, self._stems))
        if len(token) <= MAX_TERM:
            if len(self) >= MAX_KNOWN_TOKENS:
                self.clear()
            self[token] = found
        return found


class _KnownSpans(dict[str, tuple[Span, ...]]):
    """The spans of tokens that were seen before."""

    def __init__(self, language: str) -> None:
        self._stems = stems(language)

    def __missing__(self, token: str) -> tuple[Span, ...]:
        found = tuple(_token_spans(token, self._stems))
        if len(token) <= MAX_TERM:
            if len(self) >= MAX_KNOWN_SPANS:
                self.clear()
            self[token] = found
        return found


_known_terms = lru_cache(maxsize=MAX_KNOWN_LANGUAGES)(_KnownTerms)
_known_spans = lru_cache(maxsize=MAX_KNOWN_LANGUAGES)(_KnownSpans)


def _without_encoded_data(text: str) -> str:
    """Return a text of the same length with spaces in place of encoded data."""
    if len(text) < MIN_ENCODED:
        return text
    if "\n" not in text[:400] or _LONG_LINE.search(text):
        text = _ENCODED_WORD.sub(_blank, text)
    return _ENCODED_LINES.sub(_blank, text)


def _blank(match: re.Match[str]) -> str:
    return " " * len(match[0])


def _tokens(text: str) -> re.Pattern[str]:
    return _ASCII_TOKENS if text.isascii() else _TOKENS


def _token_spans(token: str, stem: Stems) -> Iterator[Span]:
    normal = normalise(token)
    if normal == token:
        for start, end, text, _ in _pieces(token):
            yield start, end, _terms(text, stem)
        return
    places = normal_places(token) or [(0, len(token))] * len(normal)
    for start, end, text, _ in _pieces(normal):
        yield places[start][0], places[end - 1][1], _terms(text, stem)


def _terms(text: str, stem: Stems) -> tuple[str, ...]:
    """Return the terms of a piece: only words of letters have stems."""
    if not text.isascii() and _UNSPACED.match(text):
        return (text,)
    return stem(text) if text.isalpha() else (fold(text),)


def _pieces(token: str) -> Iterator[_Piece]:
    """Yield the parts of a normalised token, each compound followed by the whole."""
    tailed = _TAILED.fullmatch(token)
    if tailed:
        if lower(token) in _SIGNED:
            yield _Piece(0, len(token), lower(token))
            return
        if tailed[2] in ("t", "T"):  # don't becomes dont
            yield _Piece(0, len(token), lower(tailed[1] + tailed[2]))
            return
        token = tailed[1]
    version = _VERSION.match(token)
    first = version.end() if version else 0
    parts: list[_Piece] = []  # since the last run without spaces
    whole: list[str] = []
    for match in _RUNS.finditer(token, first):
        if match[2]:
            parts += _words(match[2], match.start())
            whole.append(match[2])
        elif match[1]:
            yield from _compound(parts, whole)
            yield from _pairs(match[1], match.start())
            parts, whole = [], []
        elif whole:
            whole.append(match[0].strip("_") or "_")
    yield from _compound(parts, whole)


def _compound(parts: list[_Piece], runs: list[str]) -> Iterator[_Piece]:
    """Yield parts, then the whole if there are several."""
    parts = [part for part in parts if 0 < len(part.text) <= MAX_TERM]
    yield from parts
    if len(parts) > 1 and sum(map(len, runs)) <= MAX_TERM:
        yield _Piece(parts[0].start, parts[-1].end, _whole(runs), True)


def _whole(runs: list[str]) -> str:
    """Return a compound as one word. Hyphens go, unless it has another joiner or they are between numbers."""
    if not runs[-1][0].isalnum():  # a joiner at the end joins nothing
        runs = runs[:-1]
    if set(runs).isdisjoint("._@"):
        runs = [
            run
            for at, run in enumerate(runs)
            if run != "-" or (runs[at - 1][-1].isdigit() and runs[at + 1][0].isdigit())
        ]
    return lower("".join(runs))


def _words(run: str, start: int) -> Iterator[_Piece]:
    """Yield the words of a run: `read` and `Message` of `readMessage`, `python` and `3` of `python3`."""
    bounds = [0, *(match.start() for match in _CASE_CHANGES.finditer(run)), len(run)]
    if len(bounds) - 1 > MAX_CASED_PARTS or len(run) < 3 * (len(bounds) - 1):
        bounds = [0, len(run)]
    for first, last in pairwise(bounds):
        acronyms = _ACRONYMS.fullmatch(run, first, last)
        named = _NAME_AND_NUMBER.fullmatch(run, first, last)
        if named and not _HEX.fullmatch(run, first, last):
            yield _Piece(start + first, start + named.end(1), lower(named[1]))
            yield _Piece(start + named.start(2), start + last, named[2])
        else:
            yield _Piece(start + first, start + last, lower(acronyms[1] if acronyms else run[first:last]))


def _pairs(run: str, start: int) -> Iterator[_Piece]:
    at = start
    for text in _pair_terms(run):
        extra = len(text) < min(2, len(run))
        yield _Piece(at, at + len(text), text, extra)
        at += not extra


def _pair_terms(run: str) -> list[str]:
    """Return each two neighbouring characters of a run, or the only one, and characters with an ending."""
    pairs = list(map(add, run, run[1:])) or [run]
    found: list[str] = []
    last = 0
    for match in _CHARACTER_WITH_ENDING.finditer(run):
        found += pairs[last : match.start()]
        found.append(match[0])
        last = match.start()
    return found + pairs[last:]
