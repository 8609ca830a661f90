"""Excerpts: the part of a text that matches a query best, with marks around the words that match."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import lru_cache

from onward.model.search_query import MARK_END, MARK_START
from onward.search import words
from onward.search.folding import fold

EXCERPT_CHARACTERS = 280
MAX_CHARACTERS = 100_000  # of a text, in which matches are looked for
MAX_PATTERN_TERMS = 40
MAX_MATCHES = 150  # among which the best part is looked for
_REST_OF_WORD = re.compile(r"[\w.@+#'-]*")
_BEFORE = 60  # Characters that are shown before the first match


def marked(text: str, terms: Collection[str], language: str = "") -> str:
    """Return a short text, such as a title, with marks around its words that are among the terms."""
    text = _without_marks(text)
    return _mark(text, _matches(text, terms, language), 0, len(text))


def _without_marks(text: str) -> str:
    """Return a text in which nothing is taken for a mark; everything keeps its place."""
    return text.replace(MARK_START, " ").replace(MARK_END, " ")


def excerpt(text: str, quoted: str, terms: Collection[str], language: str = "") -> str:
    """Return the best part of a text with marks; a part of the quoted text only if nothing else matches."""
    text, quoted = _without_marks(text[:MAX_CHARACTERS]), _without_marks(quoted[:MAX_CHARACTERS])
    for body in (text, quoted):
        if found := _matches(body, terms, language):
            start, end = _best_part(body, found)
            return _framed(body, _mark(body, found, start, end), start, end)
    body = text if text.strip() else quoted
    end = _word_end(body, EXCERPT_CHARACTERS)
    return _framed(body, body[:end], 0, end)


def _matches(text: str, terms: Collection[str], language: str) -> list[tuple[int, int, str]]:
    """Return start and end of each match with its term; matches that overlap are one."""
    found: list[tuple[int, int, str]] = []
    for start, end, term in _matching_words(text, terms, language):
        joined = (start, end)
        while found and joined[0] < found[-1][1]:  # a compound comes after all of its parts
            first = found.pop()
            joined = (min(joined[0], first[0]), max(joined[1], first[1]))
        found.append((*joined, term))
        if len(found) >= MAX_MATCHES:
            break
    return found


def _matching_words(text: str, terms: Collection[str], language: str) -> Iterator[tuple[int, int, str]]:
    """Yield start, end and term of each word that has one of the terms."""
    pattern, plain = _beginnings(frozenset(terms)), _plain(text)
    if pattern is None or plain is None:
        yield from _having(words.spans(text, language), terms)
        return
    # Most words begin otherwise: their terms need not be known.
    known: dict[str, list[tuple[int, int, str]]] = {}
    last = 0
    for match in pattern.finditer(plain.lower()):
        at = match.start()
        if at < last or not _begins_word(plain, at):
            continue
        last = _REST_OF_WORD.match(plain, at).end()  # type: ignore[union-attr] # it matches anything
        word = text[at:last]
        if word not in known:
            known[word] = list(_having(words.spans(word, language), terms))
        for start, end, term in known[word]:
            yield at + start, at + end, term


def _begins_word(text: str, at: int) -> bool:
    """Return whether a word begins here, also inside of `readMessage` and `python3`."""
    before, first = text[at - 1 : at], text[at]
    if not before.isalnum():
        return True
    if first.isupper():
        return not before.isupper() or text[at + 1 : at + 2].islower()
    return first.isdigit() and before.isalpha()


def _having(spans: Iterable[words.Span], terms: Collection[str]) -> Iterator[tuple[int, int, str]]:
    for start, end, of_word in spans:
        term = next((term for term in of_word if term in terms), None)
        if term is not None:
            yield start, end, term


def _plain(text: str) -> str | None:
    """Return a text of the same length without accents, or None if that is not possible."""
    if text.isascii():
        return text
    others = [letter for letter in set(text) if letter > "\x7f"]
    letters = {ord(letter): fold(letter) for letter in others if letter.isalnum() or not fold(letter)}
    if any(len(folded) != 1 for folded in letters.values()):
        return None
    return text.translate(letters) if letters else text


@lru_cache(maxsize=64)
def _beginnings(terms: frozenset[str]) -> re.Pattern[str] | None:
    """Return a pattern of words that begin as one of the terms does, or None if these are many or not ASCII."""
    if not 0 < len(terms) <= MAX_PATTERN_TERMS or not all(term and term.isascii() for term in terms):
        return None
    # A stem differs from its word in the last letters only; a short one in its last letter.
    begins = {re.escape(term[: max(1, len(term) - 1 - (len(term) > 4))]) for term in terms}
    return re.compile("|".join(sorted(begins)))


def _best_part(text: str, found: Sequence[tuple[int, int, str]]) -> tuple[int, int]:
    """Return the part with the most different matching terms, then the most matches."""
    best, chosen = (0, 0), 0
    end = 0
    for first, (start, _, _) in enumerate(found):
        end = max(end, first)
        while end < len(found) and found[end][1] <= start + EXCERPT_CHARACTERS - _BEFORE:
            end += 1
        inside = found[first : max(end, first + 1)]
        score = (len({term for *_, term in inside}), len(inside))
        if score > best:
            best, chosen = score, first
    start = max(0, found[chosen][0] - _BEFORE)
    if start:
        begins = [place for gap in ("\n", " ") if (place := text.find(gap, start, found[chosen][0])) >= 0]
        start = min(begins) + 1 if begins else found[chosen][0]
    return start, max(_word_end(text, start + EXCERPT_CHARACTERS), found[chosen][1])


def _word_end(text: str, end: int) -> int:
    """Return the end of the last whole word before a place."""
    if end >= len(text):
        return len(text)
    space = max(text.rfind(" ", end - 40, end), text.rfind("\n", end - 40, end))
    return space if space > 0 else end


def _mark(text: str, found: Sequence[tuple[int, int, str]], start: int, end: int) -> str:
    parts, place = [], start
    for begins, ends, _ in found:
        if begins >= place and ends <= end:
            parts += [text[place:begins], MARK_START, text[begins:ends], MARK_END]
            place = ends
    return "".join([*parts, text[place:end]])


def _framed(text: str, part: str, start: int, end: int) -> str:
    before = "…" if text[:start].strip() else ""
    after = "…" if text[end:].strip() else ""
    return before + part.strip() + after
