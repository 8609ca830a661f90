"""Measures of a ranking against judgments: NDCG, reciprocal rank, recall."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

NDCG_DEPTH, RECALL_DEPTH = 10, 100


def ndcg(ranked: Sequence[str], grades: Mapping[str, int], depth: int = NDCG_DEPTH) -> float:
    """Return the discounted gain of the first results, as a share of the best that is possible.

    A document of grade g gains 2^g - 1; grade 0 gains nothing.
    """
    found = _discounted(grades.get(one, 0) for one in ranked[:depth])
    best = _discounted(sorted(grades.values(), reverse=True)[:depth])
    return found / best if best else 0.0


def reciprocal_rank(ranked: Sequence[str], grades: Mapping[str, int]) -> float:
    """Return 1 divided by the place of the first relevant document, or 0 if none was found."""
    return next((1.0 / place for place, one in enumerate(ranked, start=1) if grades.get(one, 0) > 0), 0.0)


def recall(ranked: Sequence[str], grades: Mapping[str, int], depth: int = RECALL_DEPTH) -> float:
    """Return the share of the relevant documents that are among the first results."""
    relevant = {one for one, grade in grades.items() if grade > 0}
    return len(relevant.intersection(ranked[:depth])) / len(relevant) if relevant else 0.0


class Measures(NamedTuple):
    """The measures of one ranking, or their means over many."""

    ndcg: float
    reciprocal_rank: float
    recall: float

    @classmethod
    def of(cls, ranked: Sequence[str], grades: Mapping[str, int]) -> Measures:
        return cls(ndcg(ranked, grades), reciprocal_rank(ranked, grades), recall(ranked, grades))

    @classmethod
    def mean(cls, many: Sequence[Measures]) -> Measures:
        return cls(*(math.fsum(values) / len(many) for values in zip(*many, strict=True)))


class Halves(NamedTuple):
    """The means over the questions that constants were tuned on, and over those that they never saw."""

    tuned: Measures
    reported: Measures

    @classmethod
    def of(cls, measured: Sequence[Measures]) -> Halves:
        """Split by place: the first, third, … question is for tuning, the others are for reporting."""
        return cls(Measures.mean(measured[0::2]), Measures.mean(measured[1::2]))


def _discounted(grades: Iterable[int]) -> float:
    return math.fsum((2.0**grade - 1.0) / math.log2(place + 1) for place, grade in enumerate(grades, start=1))
