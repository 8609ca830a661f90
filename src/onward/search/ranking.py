"""Scores the texts of a collection by the words of a query, by BM25."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from onward.search import words
from onward.search.folding import fold
from onward.search.phrases import FIRST_UNSPACED, texts_with_phrase
from onward.search.postings import Posting, field_prefix, lengths, storable_text

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.model.search_query import Filter, Term
    from onward.search.text_snapshot import TextSnapshot

K1, B = 1.5, 0.75  # For topics: names would like a smaller B, questions a larger K1
PART_WEIGHT = 0.2  # Of the parts of `read_message` where a text has it as a whole
MAX_GROUPS = 64  # Words of a query that rank; more are cut
MAX_CHECKED_TEXTS = 500  # The best texts in which a phrase is looked for


class Group(NamedTuple):
    """One word of a query: the terms of the index that stand for it."""

    text: str
    terms: tuple[str, ...]
    weight: float = 1.0
    left_out: int = 0  # texts in whose language it is a stop word: they have it, but not as a term


class Contribution(NamedTuple):
    """What a word adds to the score of each text that has it."""

    text: str
    numbers: NDArray[np.int64]
    scores: NDArray[np.float32]
    rarity: float  # with the weight of the word


@dataclass(frozen=True, slots=True)
class TextQuery:
    """Words to search for: any of the wanted ones, all of the required, none of the unwanted; and filters."""

    wanted: Sequence[Term]
    groups: Sequence[Group] = ()  # wanted, as terms of the index
    required: Sequence[Term] = ()
    unwanted: Sequence[Term] = ()
    filters: Sequence[Filter] = ()  # several of one facet are alternatives; all others must hold
    more_filters: Sequence[Filter] = ()  # as `filters`; both must hold
    unwanted_filters: Sequence[Filter] = ()  # none of them may hold
    question: bool = False  # its question words say nothing about what is asked for


@dataclass(slots=True)
class TextScores:
    """The scores of all texts by the words of a query, by number; 0 for a text that does not match."""

    scores: NDArray[np.float32]
    allowed: NDArray[np.bool_]  # the texts that pass the filters and have what is required
    terms: frozenset[str]  # of the index, which the wanted words stand for: to be marked where they are shown
    contributions: list[Contribution]
    coverage: NDArray[np.float32]  # the share of the wanted words that each text has, weighted by their rarity
    asked: list[tuple[str, float]]  # wanted words in their order, with their rarity; 0 for stop words
    unknown: list[str]  # wanted words that no text has


def score_texts(snapshot: TextSnapshot, query: TextQuery) -> TextScores:
    """Score texts by the words of a query."""
    import numpy as np

    allowed = snapshot.mask(query.filters, query.unwanted_filters)
    if query.more_filters:
        allowed &= snapshot.mask(query.more_filters)
    telling = telling_terms(query.wanted, snapshot.languages(), question=query.question)[:MAX_GROUPS]
    typed = {term: _groups(term, snapshot) for term in telling}
    conditions = {term: _groups(term, snapshot).parts for term in (*query.required, *query.unwanted)}
    needed = [*query.groups, *(group for one in typed.values() for group in one.every())]
    needed += [group for some in conditions.values() for group in some]
    scorer = Scorer(snapshot, snapshot.postings({term for group in needed for term in group.terms}))
    groups = list(query.groups)
    asked: list[tuple[str, float]] = []
    unknown: list[str] = []
    for term in query.wanted:
        chosen = typed[term].chosen(scorer) if term in typed else []
        asked.append((term.text, max(map(scorer.rarity_of_group, chosen), default=0.0)))
        if term in typed and not asked[-1][1]:
            unknown.append(term.text)
    for term in telling:
        groups += typed[term].chosen(scorer)
    scores, coverage = np.zeros((2, snapshot.size), dtype=np.float32)
    contributions = [added for group in groups if (added := scorer.contribution(group)) is not None]
    whole = sum(added.rarity for added in contributions)
    for added in contributions:
        scores[added.numbers] += added.scores
        coverage[added.numbers] += added.rarity / whole
    for term in query.required:
        allowed &= _texts_with(term, conditions[term], scorer, scores, allowed)
    for term in query.unwanted:
        allowed &= ~_texts_with(term, conditions[term], scorer, scores, allowed)
    scores[~allowed] = 0.0
    marked = [group for group in groups if not words.is_stop_word(group.text, snapshot.languages())] or groups
    terms = frozenset(term.rpartition(":")[2] for group in marked for term in group.terms)
    return TextScores(scores, allowed, terms, contributions, coverage, asked, unknown)


def highest(scores: NDArray[np.float32], limit: int) -> NDArray[np.int64]:
    """Return the numbers with the highest scores above 0, best first; of equal ones, the newest text."""
    import numpy as np

    best = scores.max(initial=0.0)
    for share in (0.5, 0.2):  # few are nearly as high as the best: these are sorted, not all
        numbers = np.flatnonzero(scores > best * np.float32(share))
        if len(numbers) >= limit:
            return sort_by_score(scores, numbers, limit)
    return sort_by_score(scores, np.flatnonzero(scores > 0.0), limit)


def sort_by_score(scores: NDArray[np.float32], numbers: NDArray[np.int64], limit: int) -> NDArray[np.int64]:
    """Return those of some numbers with the highest scores, best first; of equal ones, the newest text."""
    import numpy as np

    if limit < len(numbers):
        found = scores[numbers]
        numbers = numbers[found >= np.partition(found, -limit)[-limit]]
    return numbers[np.lexsort((-numbers, -scores[numbers]))][:limit]


def telling_terms(wanted: Sequence[Term], languages: Sequence[str], *, question: bool) -> list[Term]:
    """Return the terms that say what is asked for; stop words and words of a question if there are no others."""
    is_empty = words.is_stop_word if question else words.is_left_out
    telling = [term for term in wanted if term.phrase or term.field or not is_empty(term.text, languages)]
    return telling or list(wanted)


class _TermGroups(NamedTuple):
    """The words of a term of a query."""

    parts: list[Group]
    wholes: list[Group]  # `read_message` as one term, besides its parts

    def every(self) -> list[Group]:
        return self.parts + self.wholes

    def chosen(self, scorer: Scorer) -> list[Group]:
        """Return the groups that rank: where a whole is known, the parts count little."""
        known = [group for group in self.wholes if scorer.count(group)]
        return [*known, *(group._replace(weight=PART_WEIGHT) if known else group for group in self.parts)]


def _groups(term: Term, snapshot: TextSnapshot) -> _TermGroups:
    """Return the words of a term, with their index terms."""
    languages = snapshot.languages()
    field = field_prefix(term.field)
    if term.prefix:
        begins = storable_text(fold(term.text))
        found = [one for one, _ in snapshot.terms_with_prefix(field + begins)] if begins else []
        own = words.query_terms(term.text, languages, whole=False)
        if len(own) == 1:  # a whole word: its stem may be shorter than what was typed
            found += [field + one for one in own[0]]
        return _TermGroups([Group(f"{term.text}*", tuple(dict.fromkeys(found)) or (field + begins,))], [])
    parts = words.query_parts(term.text, languages, whole=False)
    wholes = () if term.phrase else words.query_parts(term.text, languages, whole=True)
    return _TermGroups(
        [_group(field, part, snapshot) for part in parts],
        [_group(field, part, snapshot) for part in wholes if part not in parts],
    )


def _group(field: str, part: words.QueryPart, snapshot: TextSnapshot) -> Group:
    terms = tuple(field + one for one in part.terms)
    if len(part.terms[0]) == 1 and part.terms[0] >= FIRST_UNSPACED:
        # One character of a script without spaces: texts have it as a part of pairs.
        terms += tuple(one for one, _ in snapshot.terms_with_prefix(terms[0]))
    # Fields have stop words as terms.
    left_out = snapshot.texts_in(part.left_out) if part.left_out and not field else 0
    return Group(terms[0], tuple(dict.fromkeys(terms)), left_out=left_out)


class Scorer:
    """BM25 of a snapshot."""

    def __init__(self, snapshot: TextSnapshot, postings: dict[str, Posting]) -> None:
        self.snapshot, self.postings = snapshot, postings
        self._texts = snapshot.live_texts
        self._table = _score_table(round(snapshot.average_length(), 1))

    def contribution(self, group: Group) -> Contribution | None:
        """Return what a word adds to the scores, or None if no text has it."""
        import numpy as np

        found = [self.postings[term] for term in group.terms if len(self.postings[term].numbers)]
        if not found:
            return None
        if len(found) == 1:
            numbers, scores = found[0].numbers, self._table[found[0].keys]
        else:  # forms of one word: the best counts
            every = np.zeros(self.snapshot.size, dtype=np.float32)
            for posting in found:
                every[posting.numbers] = np.maximum(every[posting.numbers], self._table[posting.keys])
            numbers = np.flatnonzero(every)
            scores = every[numbers]
        rarity = group.weight * self.rarity(len(numbers) + group.left_out)
        return Contribution(group.text, numbers, scores * np.float32(rarity), rarity)

    def impacts(self, weights: bytes, length: int) -> NDArray[np.float32]:
        """Return the scores of terms in a text of this length, as if each had the rarity 1."""
        import numpy as np

        found: NDArray[np.float32] = self._table[np.frombuffer(weights, np.uint8).astype(np.int64) << 8 | length]
        return found

    def count(self, group: Group) -> int:
        """Return in how many texts the most frequent form of a word is."""
        return max((len(self.postings[term].numbers) for term in group.terms), default=0)

    def rarity_of_group(self, group: Group) -> float:
        """Return the rarity of a word, or 0 if no text has it."""
        count = self.count(group)
        return self.rarity(count + group.left_out) if count else 0.0

    def rarity(self, texts: int) -> float:
        """Return the inverse document frequency of a term that is in a number of texts."""
        texts = min(texts, self._texts)
        return math.log(1.0 + (self._texts - texts + 0.5) / (texts + 0.5))


@lru_cache(maxsize=8)
def _score_table(average_length: float) -> NDArray[np.float32]:
    """Return the score of each pair of frequency and length code, for a term of rarity 1."""
    import numpy as np

    keys = np.arange(1 << 16)
    frequency = (keys >> 8) / 10.0
    norm = K1 * (1.0 - B + B * lengths()[keys & 0xFF] / average_length)
    scores: NDArray[np.float32] = (frequency * (K1 + 1.0) / (frequency + norm)).astype(np.float32)
    return scores


def _texts_with(
    term: Term,
    groups: Sequence[Group],
    scorer: Scorer,
    scores: NDArray[np.float32],
    allowed: NDArray[np.bool_],
) -> NDArray[np.bool_]:
    """Return which texts have all words of a term; for a phrase, next to each other."""
    import numpy as np

    snapshot = scorer.snapshot
    # Some texts have a stop word without having it as a term.
    groups = [group for group in groups if not group.left_out] or groups
    has = np.full(snapshot.size, bool(groups))
    for group in groups:
        one = np.zeros(snapshot.size, dtype=np.bool_)
        for index_term in group.terms:
            one[scorer.postings[index_term].numbers] = True
        has &= one
    if not term.phrase or len(term.text.split()) + len(groups) <= 2:  # one word is no phrase
        return has
    best = sort_by_score(scores, np.flatnonzero(has & allowed), MAX_CHECKED_TEXTS).tolist()
    checked = np.zeros(snapshot.size, dtype=np.bool_)
    checked[texts_with_phrase(snapshot, term.text, best, title_only=term.field == "title")] = True
    return checked
