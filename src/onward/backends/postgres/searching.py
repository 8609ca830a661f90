"""Full text in PostgreSQL: the words that a text is found by, what is asked of it, and excerpts."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence

from onward.backends.relational.database import Database
from onward.backends.relational.searching import LEAST_SCORE, NEWEST, TextSearch
from onward.model.search import MARK_END, MARK_START, Matches, TextHit

LONGEST_WORD = 500
"""Characters of a word that count; a lexeme has up to 2 kB."""
POSITIONS = 16_000
"""Words of a text whose order is known: PostgreSQL knows no higher position than 16 383."""
TITLE_BYTES, TEXT_BYTES = 40_000, 450_000
"""What is indexed of words that are all different; with more, a text could exceed the 1 MB of a tsvector."""
MOST_TERMS, MOST_CHARACTERS, MOST_WORDS = 1_000, 100_000, 200
"""What a query may ask for: terms, their characters, and words of a phrase."""
ESTIMATED = 10_000
"""With more texts than this, it is not counted how many of them have a word that many have."""
EXCERPT_WORDS = 40

Asked = list[list[str]]
"""Terms, each as its words: a term of several is a phrase."""


class _Letters(dict[int, int | str]):
    """What each character is for the comparison of words: itself, nothing (an accent), or a space."""

    def __missing__(self, character: int) -> int | str:
        kind = unicodedata.category(chr(character))[0]
        self[character] = character if kind in "LN" else "" if kind == "M" else " "
        return self[character]


class _Shape(dict[int, str]):
    """Whether a character is part of a word, so that a text's words are found at their places."""

    def __missing__(self, character: int) -> str:
        inside = unicodedata.category(chr(character))[0] == "M" or bool(words_of(chr(character)))
        self[character] = "w" if inside else " "
        return self[character]


_LETTERS = _Letters()
_SHAPE = _Shape()
_RUN = re.compile("w+")


def words_of(text: str) -> list[str]:
    """The words of a text as they are compared: letters and digits alone, without accents, in lower case."""
    words = unicodedata.normalize("NFKD", text).translate(_LETTERS).lower().split()
    if max(map(len, words), default=0) > LONGEST_WORD:
        return [word[:LONGEST_WORD] for word in words]
    return words


# -- writing


def text_rows(rows: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    """Rows of document, title and text, each with its size and the words it is found by."""
    complete: list[tuple[object, ...]] = []
    for doc, title, text in rows:
        of_title, of_text = words_of(str(title)), words_of(str(text))
        size = len(of_title) + len(of_text)
        complete.append((doc, title, text, size, _fitting(of_title, TITLE_BYTES), _fitting(of_text, TEXT_BYTES)))
    return complete


def _fitting(words: list[str], most_bytes: int) -> str:
    """Words as far as PostgreSQL can index them. Too many of them must not fail a commit."""
    if len(words) > POSITIONS:
        # Behind the last position, only whether a word is there can still be told.
        words = words[:POSITIONS] + list(dict.fromkeys(words[POSITIONS:]))
    text = " ".join(words)
    if len(text) * 4 > most_bytes and len(encoded := text.encode()) > most_bytes:
        text = encoded[:most_bytes].rpartition(b" ")[0].decode()
    return text


# -- asking


def match(db: Database, asked: TextSearch) -> Matches:
    """What is found, best first."""
    query = text_query(asked.wanted, asked.unwanted, titles=asked.titles)
    about = (query, asked.collection, asked.source, asked.filters, asked.limit, list(asked.besides))
    rows = db.read("match_texts", *about, ESTIMATED, NEWEST, LEAST_SCORE)
    return Matches([TextHit(id, score) for id, score, _ in rows], rows[0][2] if rows else 0)


def text_query(wanted: Sequence[str], unwanted: Sequence[str], *, titles: bool = True) -> str:
    """What `match_texts` is to look for, as JSON.

    Words consist of letters and digits, so that nothing in them can mean something to PostgreSQL.
    """
    terms, refused = ([f"'{' '.join(term)}'" for term in _asked(some)] for some in (wanted, unwanted))
    where = "" if titles else ":D"
    without = f" & !({' | '.join(refused)})" if refused else ""
    query = f"({' | '.join(term + where for term in terms)}){without}" if terms else None
    return json.dumps({"terms": terms, "where": where, "without": without, "query": query})


def _asked(terms: Sequence[str]) -> Asked:
    """Terms as their words, each once; what is too much for a query is left out."""
    asked: Asked = []
    left = MOST_CHARACTERS
    for term in dict.fromkeys(terms):
        words = words_of(term)[:MOST_WORDS]
        left -= sum(map(len, words))
        if left < 0 or len(asked) == MOST_TERMS:
            break
        if words and words not in asked:
            asked.append(words)
    return asked


# -- excerpts


def excerpts(
    db: Database, wanted: Sequence[str], unwanted: Sequence[str], collection: str, ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Title and an excerpt of each document that a query finds, with marks around what matches."""
    marked, refused = _asked(wanted), _asked(unwanted)
    found = {
        id: (_Text(title), _Text(text))
        for id, title, text in db.fetch("excerpts", collection, list(ids))
        if marked
    }
    # An ending alone makes the difference between a word and its stem: most words need not be looked up.
    initials = {word[0] for term in marked + refused for word in term}
    known = {word for texts in found.values() for text in texts for word in text.words if word[0] in initials}
    known.update(word for term in marked + refused for word in term)
    stems = dict(db.fetch("stems", sorted(known)))
    for texts in found.values():
        for text in texts:
            text.words = [stems.get(word, word) for word in text.words]
    marked, refused = ([[stems[word] for word in term] for term in terms] for terms in (marked, refused))
    answer: dict[str, tuple[str, str]] = {}
    for id, (title, text) in found.items():
        in_title, in_text = title.matches(marked), text.matches(marked)
        if (in_title or in_text) and not title.matches(refused) and not text.matches(refused):
            first, last = text.best(in_text)
            answer[id] = title.shown(in_title, 0, len(title.words)), text.shown(in_text, first, last)
    return answer


Match = tuple[int, int, int]
"""A term in a text: its first word, the one after its last, and which term it is."""


class _Text:
    """A text with the places of its words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.words: list[str] = []
        self._places: list[tuple[int, int]] = []
        read: dict[str, list[str]] = {}
        for run in _RUN.finditer(text.translate(_SHAPE)):
            written = text[run.start() : run.end()]
            if (words := read.get(written)) is None:
                # Most are letters and digits that nothing else could be.
                plain = written.isascii() and len(written) <= LONGEST_WORD
                words = read[written] = [written.lower()] if plain else words_of(written)
            for word in words:
                self.words.append(word)
                self._places.append(run.span())

    def matches(self, terms: Asked) -> list[Match]:
        """Where terms are, in order."""
        by_first: dict[str, list[tuple[int, list[str]]]] = {}
        for number, term in enumerate(terms):
            by_first.setdefault(term[0], []).append((number, term))
        return [
            (place, place + len(term), number)
            for place, word in enumerate(self.words)
            for number, term in by_first.get(word, ())
            if self.words[place : place + len(term)] == term
        ]

    def best(self, matches: Sequence[Match]) -> tuple[int, int]:
        """The words to show: those with the most of the different terms among them."""
        total = len(self.words)
        if total <= EXCERPT_WORDS or not matches:
            return 0, min(total, EXCERPT_WORDS)
        most, first, last = 0, 0, 0
        for number, (start, end, _) in enumerate(matches):
            here = [one for one in matches[number : number + EXCERPT_WORDS] if one[0] < start + EXCERPT_WORDS]
            if (terms := len({one[2] for one in here})) > most:
                most, first, last = terms, start, max(end, here[-1][0] + 1)
        # In the middle, but with as many words as may be shown.
        first = max(0, min(first - (EXCERPT_WORDS - (last - first)) // 2, total - EXCERPT_WORDS))
        return first, first + EXCERPT_WORDS

    def shown(self, matches: Iterable[Match], first: int, last: int) -> str:
        """These words, and whatever stands between them, with marks around what matches."""
        start = self._places[first][0] if first else 0
        end = self._places[last - 1][1] if last < len(self.words) else len(self._text)
        shown = ["…"] if start else []
        for left, right in self._marks(matches, first, last):
            shown += [self._text[start:left], MARK_START, self._text[left:right], MARK_END]
            start = right
        return "".join([*shown, self._text[start:end], "…" if end < len(self._text) else ""])

    def _marks(self, matches: Iterable[Match], first: int, last: int) -> Iterator[tuple[int, int]]:
        """Which characters to mark; what overlaps is marked as one."""
        mark = (0, 0)
        for start, end, _ in matches:
            if start >= last or end <= first:
                continue
            left, right = self._places[max(start, first)][0], self._places[min(end, last) - 1][1]
            if left < mark[1]:
                mark = mark[0], max(mark[1], right)
                continue
            if mark[1]:
                yield mark
            mark = left, right
        if mark[1]:
            yield mark
