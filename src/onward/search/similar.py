"""Texts that are about the same as another text, by its most telling terms and its vectors."""

from __future__ import annotations

from typing import TYPE_CHECKING

from onward.search.fusion import Ranking, RankingQuery, rank_texts
from onward.search.postings import text_entry
from onward.search.ranking import Group, Scorer, TextQuery
from onward.search.words import is_stop_word

if TYPE_CHECKING:
    from onward.search.text_snapshot import TextSnapshot
    from onward.search.vector_index import VectorIndex, VectorSpace

MAX_TERMS = 25
MAX_CANDIDATES = 200  # The most frequent terms of the text, among which the telling ones are chosen


def similar_texts(
    texts: TextSnapshot, vectors: VectorIndex, id: str, *, space: VectorSpace, group: str = "", limit: int = 10
) -> Ranking:
    """Rank texts by the terms and vectors of one of them, which is left out."""
    number = texts.numbers([id]).get(id)
    if number is None:
        return Ranking([], 0)
    stored = texts.stored_texts([number])
    if not stored:
        return Ranking([], 0)
    title, text, quoted = stored[number]
    entry = text_entry(title, text, "" if text.strip() else quoted, language=texts.language_of(number))
    weights = dict(zip(entry.terms.decode().split("\n")[1:-1], entry.weights, strict=True))
    languages = texts.languages()
    content = (term for term in weights if ":" not in term and not is_stop_word(term, languages))
    candidates = sorted(content, key=lambda term: -weights[term])
    scorer, counts = Scorer(texts, {}), texts.counts(candidates[:MAX_CANDIDATES])
    telling = {term: weights[term] * scorer.rarity(count) for term, count in counts.items()}
    chosen = sorted(telling, key=lambda term: -telling[term])[:MAX_TERMS]
    groups = [Group(term, (term,)) for term in chosen]
    vector = vectors.mean_of_parent(space, f"{texts.collection}/{id}")
    query = RankingQuery(
        TextQuery((), groups), vector, space if vector else None, group=group, limit=limit + 1, vague=False
    )
    found = rank_texts(texts, vectors, query)
    others = [hit for hit in found.hits if hit.id != id]
    return Ranking(others[:limit], max(0, found.total - 1), terms=frozenset(chosen))
