"""Joins the scores of words and vectors into one order, with facets and a total."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

from onward.search.feedback import add_feedback
from onward.search.index_writer import DATE
from onward.search.phrases import Neighbours
from onward.search.ranking import TextQuery, TextScores, highest, score_texts, sort_by_score
from onward.search.text_snapshot import FIRST_OWN_LABEL, YEAR

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.search.text_snapshot import TextSnapshot
    from onward.search.vector_index import VectorIndex, VectorSpace

# The constants were fitted on one half of the questions of Cranfield and of 13 tasks on real mail, and tested on
# the other half: `python -m bench quality`.
FEEDBACK_WEIGHT = 0.3  # For a query that no text covers
VAGUE_COVERAGE = 0.75  # A best text with all words is what was asked for; with so few, another may be
MIN_VAGUE_WORDS = 3  # Shorter queries name what they want
VECTOR_WEIGHTS = (0.1, 0.25)  # Of the built-in model, for a query that a text covers, and for a vague one
CANDIDATES = 30  # The best texts by words, whose vectors are compared besides the nearest ones
GROUP_TEXTS, GROUP_BEST, GROUP_WEIGHT = 200, 3, 0.2  # Of the best texts, those of one group lift each other
GOOD_COVERAGE, GOOD_SCORE = 0.6, 0.5  # A text matches well from these shares of the best text on
GOOD_SIMILARITY, MIN_SIMILARITY = 0.85, 0.5  # Of a text without any of the words: share of the best, and at least
MAX_FACET_VALUES = 20


class Reason(NamedTuple):
    """Why a text was found: a word, and what it adds to the score of the words."""

    word: str
    score: float


class RankedText(NamedTuple):
    id: str
    score: float  # from 0 to 1, by which the texts are ordered
    text_score: float  # its part by words, from 0 to 1 for the best text
    similarity: float  # the cosine similarity of its nearest vector
    reasons: tuple[Reason, ...] = ()


@dataclass(frozen=True, slots=True)
class RankingQuery:
    """Words, filters and a vector to rank texts by."""

    words: TextQuery
    vector: bytes | None = None
    space: VectorSpace | None = None
    vector_weights: tuple[float, float] = VECTOR_WEIGHTS  # for a covered query, and for a vague one
    group: str = ""  # a facet: the texts with the same value lift each other
    sort: Literal["relevance", "date"] = "relevance"
    facets: Sequence[str] = ()
    limit: int = 10
    offset: int = 0
    explain: bool = False
    vague: bool = True  # whether texts without the words may be meant: not for names, phrases and the like


@dataclass(frozen=True, slots=True)
class Ranking:
    """The best texts of a search."""

    hits: list[RankedText]
    total: int  # texts that match well
    every: int = 0  # texts that match at all
    facets: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    unknown: tuple[str, ...] = ()  # wanted words that no text has
    terms: frozenset[str] = frozenset()  # of the index, which the wanted words stand for


def rank_texts(snapshot: TextSnapshot, vectors: VectorIndex, query: RankingQuery) -> Ranking:
    """Rank the texts of a snapshot; the order is the same for every limit and offset."""
    import numpy as np

    if not query.words.wanted and not query.words.groups:
        return _listed(snapshot, query)
    scored = score_texts(snapshot, query.words)
    vagueness = _vagueness(scored, query)
    if vagueness:
        add_feedback(snapshot, scored, FEEDBACK_WEIGHT * vagueness)
    by_words = scored.scores
    best = float(by_words.max(initial=0.0)) or 1.0
    near: dict[int, float] = {}
    if query.vector is not None and query.space is not None:
        top = highest(by_words, CANDIDATES)
        near = vectors.near_texts(query.space, query.vector, snapshot, scored.allowed, top)
    low, high = query.vector_weights
    fused, by_vector = _joined(by_words / np.float32(best), near, low + (high - low) * vagueness)
    fused[~scored.allowed] = 0.0
    found = np.flatnonzero(fused)
    # What follows only adds to some of the best texts: they stay the best.
    neighbours = Neighbours(scored.asked)
    top = highest(fused, max(GROUP_TEXTS, neighbours.texts))
    if neighbours:
        fused[top[: neighbours.texts]] += neighbours.lifts(snapshot, top[: neighbours.texts].tolist())
    if query.group:
        _lift_groups(fused, snapshot.column(query.group), top[:GROUP_TEXTS])
    best_score = float(fused.max(initial=0.0)) or 1.0
    good = _good(scored, found, by_vector)
    if query.sort == "date":
        ordered = _newest(snapshot, good)
    else:
        last = query.offset + query.limit
        ordered = sort_by_score(fused, top if last <= len(top) else found, last)
    page = ordered[query.offset : query.offset + query.limit].tolist()
    ids = snapshot.ids(page)
    hits = [
        RankedText(
            ids[number],
            float(fused[number]) / best_score,
            float(by_words[number]) / best,
            max(0.0, near.get(number, 0.0)),
            _reasons(scored, number) if query.explain else (),
        )
        for number in page
        if number in ids
    ]
    facets = _facets(snapshot, query.facets, good)
    return Ranking(hits, len(good), len(found), facets, tuple(scored.unknown), scored.terms)


def _vagueness(scored: TextScores, query: RankingQuery) -> float:
    """Return from 0 to 1 how unlikely it is that the best text by words is what was asked for."""
    if not query.vague or len(scored.asked) < MIN_VAGUE_WORDS or not len(scored.scores):
        return 0.0
    covered = float(scored.coverage[int(scored.scores.argmax())])
    return min(1.0, max(0.0, (1.0 - covered) / (1.0 - VAGUE_COVERAGE)))


def _joined(
    by_words: NDArray[np.float32], near: dict[int, float], weight: float
) -> tuple[NDArray[np.float32], list[int]]:
    """Return the scores of words and vectors as one, and the texts that match by their vectors alone.

    Each is a share of the best. Not of the range from the worst to the best, as is usual: that depends on how many
    texts are compared.
    """
    import numpy as np

    nearest = max(near.values(), default=0.0)
    if nearest <= 0.0:
        return by_words, []
    fused = by_words * np.float32(1.0 - weight)
    alone = []
    for number, similarity in near.items():
        if not by_words[number]:
            if similarity < max(MIN_SIMILARITY, GOOD_SIMILARITY * nearest):
                continue
            alone.append(number)
        fused[number] += weight * max(similarity, 0.0) / nearest
    return fused, alone


def _good(scored: TextScores, found: NDArray[np.int64], by_vector: list[int]) -> NDArray[np.int64]:
    """Return the texts that match well: with as many of the words, or nearly as high a score, as the best one."""
    import numpy as np

    if not len(found):
        return found
    best = int(scored.scores.argmax())
    good = scored.coverage[found] >= GOOD_COVERAGE * scored.coverage[best]
    good |= scored.scores[found] >= GOOD_SCORE * scored.scores[best]
    good &= scored.coverage[found] > 0.0
    numbers: NDArray[np.int64] = found[good | np.isin(found, by_vector)]
    return numbers


def _listed(snapshot: TextSnapshot, query: RankingQuery) -> Ranking:
    """List texts that pass filters and have what is required, the newest first."""
    import numpy as np

    allowed = score_texts(snapshot, query.words).allowed
    found = np.flatnonzero(allowed)
    page = _newest(snapshot, found)[query.offset : query.offset + query.limit].tolist()
    ids = snapshot.ids(page)
    hits = [RankedText(ids[number], 1.0, 0.0, 0.0) for number in page if number in ids]
    return Ranking(hits, len(found), len(found), _facets(snapshot, query.facets, found))


def _lift_groups(scores: NDArray[np.float32], groups: NDArray[np.uint32], found: NDArray[np.int64]) -> None:
    """Add to each of these texts a share of the mean of the best texts of its group."""
    import numpy as np

    if not len(found):
        return
    of_group = groups[found]
    order = np.lexsort((-scores[found], of_group))
    ordered, sorted_scores = of_group[order], scores[found][order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
    totals = np.zeros(len(starts))
    for place in range(GROUP_BEST):
        at = starts + place
        ends = np.append(starts[1:], len(ordered))
        inside = at < ends
        totals[inside] += sorted_scores[at[inside]]
    lift = np.repeat(totals * (GROUP_WEIGHT / GROUP_BEST), np.diff(np.append(starts, len(ordered))))
    lift[ordered == 0] = 0.0  # without a group
    scores[found[order]] += lift.astype(np.float32)


def _newest(snapshot: TextSnapshot, numbers: NDArray[np.int64]) -> NDArray[np.int64]:
    import numpy as np

    dates = np.nan_to_num(snapshot.column(DATE)[numbers], nan=-np.inf)
    return numbers[np.lexsort((-numbers, -dates))]


def _reasons(scored: TextScores, number: int) -> tuple[Reason, ...]:
    import numpy as np

    found = []
    for one in scored.contributions:
        place = int(np.searchsorted(one.numbers, number))
        if place < len(one.numbers) and one.numbers[place] == number:
            found.append(Reason(one.text, round(float(one.scores[place]), 3)))
    return tuple(sorted(found, key=lambda reason: -reason.score))


def _facets(
    snapshot: TextSnapshot, names: Sequence[str], numbers: NDArray[np.int64]
) -> dict[str, list[tuple[str, int]]]:
    """Return the most frequent values of each facet among these texts, with their counts."""
    facets: dict[str, list[tuple[str, int]]] = {}
    for name in names:
        if name == YEAR:
            found = [(str(year), count) for year, count in _counts(snapshot.column(YEAR)[numbers])]
            facets[name] = sorted(found, reverse=True)
            continue
        counts = sorted(_counts(snapshot.column(name)[numbers]), key=lambda one: -one[1])[:MAX_FACET_VALUES]
        texts = snapshot.values_of(name, [label for label, _ in counts])
        listed = [(texts[label], count) for label, count in counts if label in texts]
        facets[name] = sorted(listed, key=lambda value: (-value[1], value[0]))  # the same in every store
    return facets


def _counts(labels: NDArray[np.uint32]) -> list[tuple[int, int]]:
    """Return each label but 0, and how often it is there; counting is much faster than sorting."""
    import numpy as np

    stored = labels < FIRST_OWN_LABEL
    counts = np.bincount(labels[stored])
    counts[:1] = 0
    found = np.flatnonzero(counts)
    own, of_own = np.unique(labels[~stored], return_counts=True)
    return [
        *zip(found.tolist(), counts[found].tolist(), strict=True),
        *zip(own.tolist(), of_own.tolist(), strict=True),
    ]
