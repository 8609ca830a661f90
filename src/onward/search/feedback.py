"""Pseudo relevance feedback: the words that the best texts have in common are searched for, too."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

from onward.search.postings import text_entry
from onward.search.ranking import Group, Scorer, TextScores, highest

if TYPE_CHECKING:
    from onward.search.text_snapshot import TextSnapshot

BEST_TEXTS, MAX_TERMS = 10, 10
MAX_CANDIDATES = 40  # Terms whose rarity is looked up to choose `MAX_TERMS` of them
MAX_TEXTS = 30_000  # A term of more texts says little, and its postings are long
MAX_CHARACTERS = 2_000  # Of a text: what it is about is said by then


def add_feedback(snapshot: TextSnapshot, found: TextScores, weight: float) -> None:
    """Add the terms that the best texts share to the scores, with a weight from 0 to 1."""
    import numpy as np

    best = highest(found.scores, BEST_TEXTS).tolist()
    whole = float(found.scores[best].sum())
    weights: defaultdict[str, float] = defaultdict(float)
    counts: defaultdict[str, int] = defaultdict(int)
    scorer = Scorer(snapshot, {})
    for number, stored in snapshot.stored_texts(best).items():
        title, text, quoted = (part[:MAX_CHARACTERS] for part in stored)
        entry = text_entry(title, text, quoted, language=snapshot.language_of(number))
        share = float(found.scores[number]) / whole
        impacts = scorer.impacts(entry.weights, entry.length).tolist()
        for term, impact in zip(entry.terms.decode().split("\n")[1:-1], impacts, strict=True):
            if ":" not in term:
                weights[term] += share * impact
                counts[term] += 1
    shared = sorted((term for term in weights if counts[term] > 1), key=lambda term: -weights[term])
    telling = {
        term: weights[term] * scorer.rarity(texts)
        for term, texts in snapshot.counts(shared[:MAX_CANDIDATES]).items()
        if texts <= MAX_TEXTS
    }
    chosen = sorted(telling, key=lambda term: -telling[term])[:MAX_TERMS]
    scorer = Scorer(snapshot, snapshot.postings(chosen))
    total = sum(telling[term] for term in chosen)
    if not total:
        return
    found.scores *= np.float32((1.0 - weight) / len(found.contributions))
    for term in chosen:
        added = scorer.contribution(Group(term, (term,), weight * telling[term] / total))
        if added is not None:
            allowed = found.allowed[added.numbers]
            found.scores[added.numbers[allowed]] += added.scores[allowed]
