"""Full-text search in PostgreSQL: indexed words, queries and excerpts.

Excerpts are not made by `ts_headline`: it parses the original text, while the index has words without accents and
punctuation, so that it would not mark all words that match, nor the same as SQLite.
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable, Sequence

from onward.model.search_query import MARK_END, MARK_START, Matches, TextHit
from onward.search.search_queries import MAX_RANKED_BY_COMMON_WORDS, UNRANKED_SCORE, SearchDatabase, TextSearch

MAX_WORD_CHARACTERS = 500  # Characters of a word that are indexed; a lexeme has up to 2 kB
MAX_POSITIONS = 16_000  # Words of a text that are indexed with position; PostgreSQL has positions up to 16 383
MAX_TITLE_BYTES, MAX_TEXT_BYTES = 40_000, 450_000  # That are indexed: a tsvector has up to 1 MB
MAX_TERMS, MAX_CHARACTERS, MAX_PHRASE_WORDS = 1_000, 100_000, 200  # Of a query; characters of all its terms
MAX_COUNTED_TEXTS = 10_000  # With more texts than this, the number of texts that have a common word is estimated
EXCERPT_WORDS = 40

Terms = list[list[str]]  # Terms, each as its words: a term of several words is a phrase


class _Letters(dict[int, int | str]):
    """Maps each character for the comparison of words: to itself, to nothing (an accent), or to a space."""

    def __missing__(self, character: int) -> int | str:
        kind = unicodedata.category(chr(character))[0]
        self[character] = character if kind in "LN" else "" if kind == "M" else " "
        return self[character]


class _Shape(dict[int, str]):
    """Maps each character to "w" if it is part of a word, so that words are found at their positions."""

    def __missing__(self, character: int) -> str:
        inside = unicodedata.category(chr(character))[0] == "M" or bool(words_of(chr(character)))
        self[character] = "w" if inside else " "
        return self[character]


_LETTERS = _Letters()
_SHAPE = _Shape()
_RUN = re.compile("w+")


def words_of(text: str) -> list[str]:
    """Return the words of a text for comparison: only letters and digits, without accents, in lower case."""
    words = unicodedata.normalize("NFKD", text).translate(_LETTERS).lower().split()
    if max(map(len, words), default=0) > MAX_WORD_CHARACTERS:
        return [word[:MAX_WORD_CHARACTERS] for word in words]
    return words


def text_rows(rows: Sequence[Sequence[object]]) -> list[tuple[object, ...]]:
    """Complete rows of document, title, text and quoted text with their size and the words they are found by."""
    complete: list[tuple[object, ...]] = []
    for doc, title, text, quoted in rows:
        of_title, of_text, of_quoted = words_of(str(title)), words_of(str(text)), words_of(str(quoted))
        size = len(of_title) + len(of_text) + len(of_quoted)
        in_text = _fitting(of_text, MAX_TEXT_BYTES)
        # The quoted text gets the positions and bytes that the text leaves.
        left = max(0, MAX_POSITIONS - len(of_text)), MAX_TEXT_BYTES - len(in_text.encode())
        in_quoted = _fitting(of_quoted, left[1], left[0])
        complete.append((doc, title, text, quoted, size, _fitting(of_title, MAX_TITLE_BYTES), in_text, in_quoted))
    return complete


def _fitting(words: list[str], most_bytes: int, positions: int = MAX_POSITIONS) -> str:
    """Return words as far as PostgreSQL can index them. Too many of them must not fail a commit."""
    if len(words) > positions:
        # Behind the last position, a word is indexed without position, once.
        words = words[:positions] + list(dict.fromkeys(words[positions:]))
    text = " ".join(words)
    if len(text) * 4 > most_bytes and len(encoded := text.encode()) > most_bytes:
        text = encoded[:most_bytes].rpartition(b" ")[0].decode()
    return text


def match(db: SearchDatabase, query: TextSearch) -> Matches:
    text = text_query(query.wanted, query.unwanted, titles=query.titles)
    about = (text, query.collection, query.source, query.filters, query.limit, list(query.besides))
    rows = db.read("match_texts", *about, MAX_COUNTED_TEXTS, MAX_RANKED_BY_COMMON_WORDS, UNRANKED_SCORE)
    return Matches([TextHit(id, score) for id, score, _ in rows], rows[0][2] if rows else 0)


def text_query(wanted: Sequence[str], unwanted: Sequence[str], *, titles: bool = True) -> str:
    """Return a query for `match_texts`, as JSON. Words are letters and digits, and no operators of a tsquery."""
    terms, refused = ([f"'{' '.join(term)}'" for term in _terms(some)] for some in (wanted, unwanted))
    where = "" if titles else ":CD"
    without = f" & !({' | '.join(refused)})" if refused else ""
    query = f"({' | '.join(term + where for term in terms)}){without}" if terms else None
    return json.dumps({"terms": terms, "where": where, "without": without, "query": query})


def _terms(terms: Sequence[str]) -> Terms:
    """Return terms as their words, each once, up to the limits of a query."""
    terms_found: Terms = []
    left = MAX_CHARACTERS
    for term in dict.fromkeys(terms):
        words = words_of(term)[:MAX_PHRASE_WORDS]
        left -= sum(map(len, words))
        if left < 0 or len(terms_found) == MAX_TERMS:
            break
        if words and words not in terms_found:
            terms_found.append(words)
    return terms_found


def excerpts(
    db: SearchDatabase, wanted: Sequence[str], unwanted: Sequence[str], collection: str, ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return title and an excerpt of each document that a query finds, with marks around what matches."""
    marked, refused = _terms(wanted), _terms(unwanted)
    found = {id: tuple(map(_Text, texts)) for id, *texts in db.fetch("excerpts", collection, list(ids)) if marked}
    # A word and its stem differ only in the ending: words with other initials need not be looked up.
    initials = {word[0] for term in marked + refused for word in term}
    candidates = {word for texts in found.values() for text in texts for word in text.words if word[0] in initials}
    candidates.update(word for term in marked + refused for word in term)
    stems = dict(db.fetch("stems", sorted(candidates)))
    for texts in found.values():
        for text in texts:
            text.words = [stems.get(word, word) for word in text.words]
    marked, refused = ([[stems[word] for word in term] for term in terms] for terms in (marked, refused))
    found_excerpts: dict[str, tuple[str, str]] = {}
    for id, (title, text, quoted) in found.items():
        in_title, in_text, in_quoted = (field.matches(marked) for field in (title, text, quoted))
        shown, in_shown = (quoted, in_quoted) if in_quoted and not in_text else (text, in_text)
        if (in_title or in_shown) and not any(field.matches(refused) for field in (title, text, quoted)):
            first, last = shown.best(in_shown)
            found_excerpts[id] = title.shown(in_title, 0, len(title.words)), shown.shown(in_shown, first, last)
    return found_excerpts


Match = tuple[int, int, int]  # A term in a text: its first word, the word after its last, the term's number


class _Text:
    """A text with the positions of its words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.words: list[str] = []
        self._places: list[tuple[int, int]] = []
        read: dict[str, list[str]] = {}
        for run in _RUN.finditer(text.translate(_SHAPE)):
            written = text[run.start() : run.end()]
            if (words := read.get(written)) is None:
                # Most words are plain ASCII, and need no normalisation.
                plain = written.isascii() and len(written) <= MAX_WORD_CHARACTERS
                words = read[written] = [written.lower()] if plain else words_of(written)
            for word in words:
                self.words.append(word)
                self._places.append(run.span())

    def matches(self, terms: Terms) -> list[Match]:
        """Return where terms occur, in order."""
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
        """Return the range of words to show: the one with the most different terms."""
        total = len(self.words)
        if total <= EXCERPT_WORDS or not matches:
            return 0, min(total, EXCERPT_WORDS)
        most, first, last = 0, 0, 0
        for number, (start, end, _) in enumerate(matches):
            here = [
                match for match in matches[number : number + EXCERPT_WORDS] if match[0] < start + EXCERPT_WORDS
            ]
            if (terms := len({match[2] for match in here})) > most:
                most, first, last = terms, start, max(end, here[-1][0] + 1)
        # Centred, but always `EXCERPT_WORDS` long.
        first = max(0, min(first - (EXCERPT_WORDS - (last - first)) // 2, total - EXCERPT_WORDS))
        return first, first + EXCERPT_WORDS

    def shown(self, matches: Iterable[Match], first: int, last: int) -> str:
        """Return the text of a range of words, with marks around what matches."""
        start = self._places[first][0] if first else 0
        end = self._places[last - 1][1] if last < len(self.words) else len(self._text)
        shown = ["…"] if start else []
        marks: list[list[int]] = []
        for begins, ends, _ in matches:
            if begins < last and ends > first:
                left, right = self._places[max(begins, first)][0], self._places[min(ends, last) - 1][1]
                if marks and left < marks[-1][1]:  # overlapping marks are merged
                    marks[-1][1] = max(marks[-1][1], right)
                else:
                    marks.append([left, right])
        for left, right in marks:
            shown += [self._text[start:left], MARK_START, self._text[left:right], MARK_END]
            start = right
        return "".join([*shown, self._text[start:end], "…" if end < len(self._text) else ""])
