"""Phrases: words that follow each other. The index has no positions: the texts themselves are looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cached_property, lru_cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from onward.search import words
from onward.search.folding import fold

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.search.text_snapshot import TextSnapshot

FIRST_UNSPACED = "\u0e00"  # From Thai on, nearly all scripts have no spaces between words
MAX_CHARACTERS = 50_000  # Of a text, in which neighbouring words are looked for
QUOTED_SHARE = 0.3  # How much neighbours in quoted text count
PAIR_WEIGHT, NAME_WEIGHT = 0.15, 1.0  # What a text gains that has all pairs, or all names, of a query
MAX_PAIRS = 12
BEST_TEXTS, BEST_FOR_NAMES = 30, 200  # Texts with a name as it was typed may be long, and so far behind
_WORDS = re.compile(r"[^\W_]+")
# `app.py`, `read_message` or a phrase; not `e-mail`, nor addresses and Message-IDs, which are no part of a text.
_NAME = re.compile(r"[^@]*[^\W_](?:[./:]|_+|\s+)[^\W_][^@]*")


class _Pattern:
    """Words to look for in folded text. What finds them is made once a text has the beginnings of all words."""

    def __init__(self, begins: Sequence[str], expression: str) -> None:
        self._begins, self._expression = begins, expression

    def is_in(self, text: str) -> bool:
        return all(begin in text for begin in self._begins) and self._found.search(text) is not None

    @cached_property
    def _found(self) -> re.Pattern[str]:
        return re.compile(self._expression)


@lru_cache(maxsize=256)
def phrase_pattern(phrase: str) -> _Pattern:
    """Return a pattern that finds the words of a phrase, with any endings, next to each other in folded text."""
    begins, parts = [], []
    for word in _WORDS.findall(fold(phrase)):
        if word >= FIRST_UNSPACED:  # its script has no spaces and no endings
            begins.append(word)
            parts.append(re.escape(word))
            continue
        stem = next(iter(words.all_terms(word)), word)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, stem, strict=False))) or 1
        begins.append(word[:same])
        begin = re.escape(word[:same])
        # The letters come first, then what must not be before them: so they are looked for as plain text.
        parts.append(rf"{begin}(?<![^\W_]{begin})[^\W_]*")
    return _Pattern(begins, r"[\W_]*".join(parts) or "(?!)")


@lru_cache(maxsize=256)
def name_pattern(name: str) -> _Pattern:
    """Return a pattern that finds a name such as `builtin/fetch.c`, or a phrase, as it is in folded text."""
    parts = fold(name).split()
    first, rest = re.escape(parts[0]), [re.escape(part) for part in parts[1:]]
    exact = r"\s+".join([rf"{first}(?<!\w{first})", *rest])
    return _Pattern(parts, rf"{exact}(?!\w)")


def texts_with_phrase(
    snapshot: TextSnapshot, phrase: str, numbers: Sequence[int], *, title_only: bool = False
) -> list[int]:
    """Return those of some texts that have a phrase in their title, text or quoted text."""
    pattern = phrase_pattern(phrase)
    parts = slice(0, 1 if title_only else None)
    stored = snapshot.stored_texts(numbers)
    return [number for number, texts in stored.items() if any(pattern.is_in(fold(text)) for text in texts[parts])]


class Neighbours:
    """Neighbouring words of a query, and its names: a text gains that has them as they were typed.

    The words are given with their weights: pairs of rare words count more. A query that is a name is about texts
    with this name; one of many words that has a name may be about others, so its share of the query counts.
    """

    def __init__(self, asked: Sequence[tuple[str, float]]) -> None:
        pairs = [(f"{one} {other}", weight + more) for (one, weight), (other, more) in pairwise(asked)]
        found = [(phrase_pattern(pair), weight) for pair, weight in pairs[:MAX_PAIRS] if weight]
        names = [(name_pattern(word), weight) for word, weight in asked if weight and _NAME.fullmatch(word)]
        self.texts = BEST_FOR_NAMES if names else BEST_TEXTS  # how many of the best texts are worth a look
        if len(asked) == 1 and not names:  # one word: texts that only quote it come later
            names = [(phrase_pattern(word), weight) for word, weight in asked if weight and "@" not in word]
        whole, of_pairs = sum(weight for _, weight in asked), sum(weight for _, weight in found)
        self._lifts = [(pattern, NAME_WEIGHT * (weight / whole) ** 3) for pattern, weight in names]
        self._lifts += [(pattern, PAIR_WEIGHT * weight / of_pairs) for pattern, weight in found]

    def __bool__(self) -> bool:
        return bool(self._lifts)

    def lifts(self, snapshot: TextSnapshot, numbers: Sequence[int]) -> NDArray[np.float32]:
        """Return what each of these texts gains."""
        import numpy as np

        stored = snapshot.stored_texts(numbers)
        gained = np.zeros(len(numbers), dtype=np.float32)
        for place, number in enumerate(numbers):
            if number not in stored:
                continue
            title, text, quoted = (fold(part[:MAX_CHARACTERS]) for part in stored[number])
            own = f"{title}\n.\n{text}"
            for pattern, lift in self._lifts:
                if pattern.is_in(own):
                    gained[place] += lift
                elif quoted and pattern.is_in(quoted):
                    gained[place] += QUOTED_SHARE * lift
        return gained
