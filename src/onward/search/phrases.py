"""Phrases: words that follow each other. The index has no positions: the texts themselves are looked at."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import pairwise, takewhile
from typing import TYPE_CHECKING

from onward.search import words
from onward.search.folding import fold

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.search.text_index import TextSnapshot

FIRST_UNSPACED = "\u0e00"  # From Thai on, nearly all scripts have no spaces between words
MAX_CHARACTERS = 50_000  # Of a text, in which neighbouring words are looked for
QUOTED_SHARE = 0.3  # How much neighbours in quoted text count
MAX_PAIRS = 12
_WORDS = re.compile(r"[^\W_]+")


@lru_cache(maxsize=256)
def phrase_pattern(phrase: str) -> re.Pattern[str]:
    """Return a pattern that finds the words of a phrase, with any endings, next to each other in folded text."""
    parts = []
    for word in _WORDS.findall(fold(phrase)):
        if word >= FIRST_UNSPACED:  # its script has no spaces and no endings
            parts.append(re.escape(word))
            continue
        stem = next(iter(words.all_terms(word)), word)
        same = sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], zip(word, stem, strict=False))) or 1
        begin = re.escape(word[:same])
        # The letters come first, then what must not be before them: so they are looked for as plain text.
        parts.append(rf"{begin}(?<![^\W_]{begin})[^\W_]*")
    return re.compile(r"[\W_]*".join(parts) if parts else "(?!)")


@lru_cache(maxsize=256)
def name_pattern(name: str) -> re.Pattern[str]:
    """Return a pattern that finds a name such as `builtin/fetch.c` as it is in folded text."""
    exact = re.escape(fold(name))
    return re.compile(rf"{exact}(?<!\w{exact})(?!\w)")


def texts_with_phrase(
    snapshot: TextSnapshot, phrase: str, numbers: Sequence[int], *, title_only: bool = False
) -> list[int]:
    """Return those of some texts that have a phrase in their title, text or quoted text."""
    pattern = phrase_pattern(phrase)
    parts = slice(0, 1 if title_only else None)
    stored = snapshot.stored_texts(numbers)
    return [number for number, texts in stored.items() if any(pattern.search(fold(text)) for text in texts[parts])]


def neighbour_patterns(asked: Sequence[tuple[str, float]]) -> list[tuple[re.Pattern[str], float]]:
    """Return what finds neighbouring words of a query next to each other, and names as they were typed."""
    pairs = [(f"{one} {other}", weight + more) for (one, weight), (other, more) in pairwise(asked)]
    found = [(phrase_pattern(pair), weight) for pair, weight in pairs[:MAX_PAIRS]]
    found += [(name_pattern(word), weight) for word, weight in asked if len(_WORDS.findall(word)) > 1]
    return [(pattern, weight) for pattern, weight in found if weight]


def neighbour_shares(
    snapshot: TextSnapshot, asked: Sequence[tuple[str, float]], numbers: Sequence[int]
) -> NDArray[np.float32]:
    """Return for each text which share of the neighbouring words of a query are neighbours in it, too.

    The words of the query are given with their weights: pairs of rare words count more.
    """
    import numpy as np

    pairs = neighbour_patterns(asked)
    whole = sum(weight for _, weight in pairs) or 1.0
    stored = snapshot.stored_texts(numbers)
    shares = np.zeros(len(numbers), dtype=np.float32)
    for place, number in enumerate(numbers):
        if number not in stored:
            continue
        title, text, quoted = (fold(part[:MAX_CHARACTERS]) for part in stored[number])
        own = f"{title}\n.\n{text}"
        for pattern, weight in pairs:
            if pattern.search(own):
                shares[place] += weight / whole
            elif quoted and pattern.search(quoted):
                shares[place] += QUOTED_SHARE * weight / whole
    return shares
