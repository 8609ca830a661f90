"""Full-text search in SQLite, with FTS5."""

from __future__ import annotations

from collections.abc import Sequence

from onward.model.search_query import Matches, TextHit
from onward.search.search_queries import MAX_RANKED_BY_COMMON_WORDS, UNRANKED_SCORE, SearchDatabase, TextSearch


def match(db: SearchDatabase, query: TextSearch) -> Matches:
    filters = (query.collection, query.source, list(query.filters))
    limit, extra_ids = query.limit, list(query.besides)
    max_results = -1 if limit is None else limit
    texts, counts = db.read("term_counts", list(map(_phrase, query.wanted)))
    known = [(term, count) for term, count in zip(query.wanted, counts, strict=True) if count]
    rare = [term for term, count in known if count * 2 <= texts]  # in at most half of all texts
    finding, ranking = (
        text_query(terms, query.unwanted, titles=query.titles) for terms in (query.wanted, rare or query.wanted)
    )
    total, newest, extra, oldest_ranked = None, [], [], 0
    if len(rare) < len(known):  # some words are too common to rank by
        enough = max_results if rare or limit is None else max(limit, MAX_RANKED_BY_COMMON_WORDS)
        total, newest, extra = db.read("found_texts", finding, *filters, enough, extra_ids)
        oldest_ranked = (
            0 if rare or len(newest) < MAX_RANKED_BY_COMMON_WORDS else newest[MAX_RANKED_BY_COMMON_WORDS - 1][0]
        )
    best, more, ranked = db.read("ranked_texts", ranking, *filters, oldest_ranked, max_results, extra_ids)
    found: dict[str, float] = dict(best)
    if limit is None or len(best) < limit:
        # All ranked texts are included; of the others, the newest.
        rest = [id for _, id in newest if id not in found]
        found |= dict.fromkeys(rest if limit is None else rest[: limit - len(best)], UNRANKED_SCORE)
    for id, score in (*more, *((id, UNRANKED_SCORE) for id in extra)):
        found.setdefault(id, score)
    return Matches([TextHit(id, score) for id, score in found.items()], ranked if total is None else total)


def excerpts(
    db: SearchDatabase, wanted: Sequence[str], unwanted: Sequence[str], collection: str, ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Return title and an excerpt of each document that a query finds, with marks around what matches."""
    found = db.fetch("excerpts", text_query(wanted, unwanted), collection, list(ids))
    return {id: (title, text) for id, title, text in found}


def text_query(wanted: Sequence[str], unwanted: Sequence[str], *, titles: bool = True) -> str:
    # Each term once: a term that is repeated would be counted again in each text.
    any_of, none_of = (" OR ".join(dict.fromkeys(map(_phrase, terms))) for terms in (wanted, unwanted))
    found = f"({any_of})" if titles else f"{{text quoted}} : ({any_of})"
    return f"{found} NOT ({none_of})" if none_of else found


def _phrase(term: str) -> str:
    # A NUL would end the query, and a lone surrogate cannot be encoded.
    term = term.replace("\x00", " ").encode("utf-8", "replace").decode()
    return '"' + term.replace('"', '""') + '"'
