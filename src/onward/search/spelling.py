"""Corrections of query words that no text has, or only few: the word that was probably meant.

The index knows stems, people want to see words. A stem is an option if it is similar to the beginning of what was
typed, and is the stem of the word that it makes with the rest: `messag` is similar to `mesag` of `mesages`, and
the stem of `messages`. A typing error in the ending is found by changing the ending until the word has the stem.
Such a word need not exist: what is suggested is a word of the texts that have one of these stems.
"""

from __future__ import annotations

import heapq
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator

from onward.search.folding import UNSPACED_FROM, fold
from onward.search.languages import rules, stems
from onward.search.words import query_terms, spans

TextsOf = Callable[[str], Iterable[tuple[str, str]]]  # about 10 texts that have a term, with their languages

MIN_LETTERS = 4  # in a shorter word, only two neighbouring letters may be swapped
MIN_LETTERS_FOR_TWO_EDITS = 7
MAX_ENDING = 6
MAX_OPTIONS = 5  # terms whose words are looked up in texts
EDIT_COST = 4.0  # an edit more is worth it for a term with e⁴ = 50 times as many texts
FIRST_LETTER_COST = 2.0  # people seldom mistake the first letter
MIN_TIMES_AS_MANY = 50  # a word that some texts have is corrected only to a term with this many times as many


def first_letters(word: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return with which letters the terms begin that `suggest` chooses from: () if a word cannot be corrected."""
    return tuple(dict.fromkeys(fold(word)[:2])) if _own_terms(word, languages) else ()


def suggest(
    word: str, candidates: Iterable[tuple[str, int]], languages: Collection[str], texts_of: TextsOf
) -> str | None:
    """Return the word of the store that was probably meant by a misspelt one, or None.

    The candidates are terms of the index and in how many texts they are, the word's own terms among them.
    """
    counts: dict[str, int] = {}
    for term, count in candidates:
        counts[term] = max(count, counts.get(term, 0))
    typed = fold(word)
    found: list[tuple[float, str]] = []
    for _, term in heapq.nlargest(MAX_OPTIONS, _options(word, counts, languages)):
        if real := shown_word(term, texts_of(term), like=word):
            found.append((_value(typed, fold(real), counts[term]), real))
    return max(found)[1] if found else None


def shown_word(term: str, texts: Iterable[tuple[str, str]], like: str = "") -> str:
    """Return a word that has this term, from texts given with their languages, or "" if they have none.

    Of several words it is the most similar to what was typed, then the most frequent.
    """
    found: Counter[str] = Counter()
    for text, language in texts:
        found.update(text[start:end] for start, end, terms in spans(text, language) if term in terms)
    if not found:
        return ""
    words: Counter[str] = Counter()
    for word, count in found.items():
        words[word.lower()] += count
    typed = fold(like)
    chosen = min(words, key=lambda word: (edits_between(typed, fold(word)) if typed else 0, -words[word], word))
    if chosen in found:  # in lower case
        return chosen
    return max((word for word in found if word.lower() == chosen), key=lambda word: (found[word], word))


def edits_between(one: str, other: str) -> int:
    """Return how many letters must be inserted, removed, replaced or swapped with their neighbour."""
    return _edits_to_beginnings(one, other)[-1]


def _value(typed: str, word: str, count: int) -> float:
    """Return how likely it is that a word was meant, as a logarithm."""
    return math.log(count) - EDIT_COST * edits_between(typed, word) - FIRST_LETTER_COST * (typed[0] != word[0])


def _own_terms(word: str, languages: Collection[str]) -> tuple[str, ...]:
    """Return the terms of a word that can be corrected: () for compounds, numbers, and scripts without spaces."""
    parts = query_terms(word, languages)
    typed = fold(word)
    correctable = len(parts) == 1 and typed.isalpha() and typed < UNSPACED_FROM and len(typed) >= MIN_LETTERS - 1
    return parts[0] if correctable else ()


def _options(word: str, counts: dict[str, int], languages: Collection[str]) -> Iterator[tuple[float, str]]:
    """Yield terms that were perhaps meant, and how likely."""
    own = _own_terms(word, languages)
    if not own:
        return
    enough = max(counts.get(term, 0) for term in own) * MIN_TIMES_AS_MANY
    typed = fold(word)
    codes = sorted({rules(language) for language in languages})
    for term, count in counts.items():
        if count > enough and term not in own and term.isalpha():
            values = [_value(typed, meant, count) for meant in _words_meant(typed, term, codes)]
            if values:
                yield max(values), term


def _words_meant(typed: str, term: str, codes: Collection[str]) -> Iterator[str]:
    """Yield words with this term that were perhaps meant."""
    limit = 2 if len(term) >= MIN_LETTERS_FOR_TWO_EDITS else 1
    if not -limit <= len(typed) - len(term) <= MAX_ENDING + limit or len(set(term) - set(typed)) > limit:
        return
    only_swaps = min(len(term), len(typed)) < MIN_LETTERS
    for base in (term, f"{term[:-1]}y") if term.endswith("i") else (term,):
        edits = _edits_to_beginnings(base, typed)
        least = min(edits)
        if least > limit:
            continue
        if least == 0:
            endings = _one_edit_from(typed[len(base) :])
        else:
            endings = {typed[at:] for at, count in enumerate(edits) if count == least}
            last = len(base) - 1
            if typed[:last] + typed[last + 1 : last + 2] == base:  # swapped with the first letter of the ending
                endings.add(typed[last] + typed[last + 2 :])
        for ending in endings:
            word = base + ending
            if only_swaps and sorted(word) != sorted(typed):
                continue
            if any(term in stems(code)(word) for code in codes):
                yield word


def _one_edit_from(ending: str) -> set[str]:
    """Return all endings that are one edit away."""
    found = {ending[:at] + ending[at + 1 :] for at in range(len(ending))}
    found |= {ending[:at] + ending[at : at + 2][::-1] + ending[at + 2 :] for at in range(len(ending) - 1)}
    for letter in {*ending, *"abcdefghilmnorstuvyz"}:  # letters of common endings
        found |= {ending[:at] + letter + ending[at:] for at in range(len(ending) + 1)}
        found |= {ending[:at] + letter + ending[at + 1 :] for at in range(len(ending))}
    return found - {ending}


def _edits_to_beginnings(one: str, other: str) -> list[int]:
    """Return for each length how many edits are between one word and the first letters of the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for at, letter in enumerate(one):
        before_last, before, row = before, row, [at + 1]
        for place, against in enumerate(other):
            edits = min(before[place] + (letter != against), before[place + 1] + 1, row[place] + 1)
            if at and place and letter == other[place - 1] and against == one[at - 1]:
                edits = min(edits, before_last[place - 1] + 1)
            row.append(edits)
    return row
