"""Full text in SQLite: what is asked of it, and what is ranked."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.relational.database import Database
from onward.backends.relational.searching import LEAST_SCORE, NEWEST, TextSearch
from onward.model.search import Matches, TextHit


def match(db: Database, asked: TextSearch) -> Matches:
    """What is found, best first."""
    about = (asked.collection, asked.source, list(asked.filters))
    limit, besides = asked.limit, list(asked.besides)
    most = -1 if limit is None else limit
    known, telling = _counted(db, asked.wanted)
    finding, ranking = (
        text_query(terms, asked.unwanted, titles=asked.titles) for terms in (asked.wanted, telling or asked.wanted)
    )
    total, newest, also, since = None, [], [], 0
    if len(telling) < len(known):  # some only find
        enough = most if telling or limit is None else max(limit, NEWEST)
        total, newest, also = db.read("found_texts", finding, *about, enough, besides)
        since = 0 if telling or len(newest) < NEWEST else newest[NEWEST - 1][0]
    best, more, ranked = db.read("ranked_texts", ranking, *about, since, most, besides)
    found: dict[str, float] = dict(best)
    if limit is None or len(best) < limit:
        # All that is ranked is there: of the rest, the newest.
        rest = [id for _, id in newest if id not in found]
        found |= dict.fromkeys(rest if limit is None else rest[: limit - len(best)], LEAST_SCORE)
    for id, score in (*more, *((id, LEAST_SCORE) for id in also)):
        found.setdefault(id, score)
    return Matches([TextHit(id, score) for id, score in found.items()], ranked if total is None else total)


def _counted(db: Database, wanted: Sequence[str]) -> tuple[list[str], list[str]]:
    """The terms that texts have, and of those the ones that not more than half of them have."""
    texts, counts = db.read("term_counts", list(map(_phrase, wanted)))
    known = [(term, count) for term, count in zip(wanted, counts, strict=True) if count]
    return [term for term, _ in known], [term for term, count in known if count * 2 <= texts]


def excerpts(
    db: Database, wanted: Sequence[str], unwanted: Sequence[str], collection: str, ids: Sequence[str]
) -> dict[str, tuple[str, str]]:
    """Title and an excerpt of each document that a query finds, with marks around what matches."""
    found = db.fetch("excerpts", text_query(wanted, unwanted), collection, list(ids))
    return {id: (title, text) for id, title, text in found}


def text_query(wanted: Sequence[str], unwanted: Sequence[str], *, titles: bool = True) -> str:
    """A full-text query in FTS5's language."""
    # Each once: a word that is asked for a thousand times would be counted a thousand times in each text.
    any_of, none_of = (" OR ".join(dict.fromkeys(map(_phrase, terms))) for terms in (wanted, unwanted))
    found = f"({any_of})" if titles else f"text : ({any_of})"
    return f"{found} NOT ({none_of})" if none_of else found


def _phrase(term: str) -> str:
    # A NUL would end the query, and half a character cannot be sent.
    term = term.replace("\x00", " ").encode("utf-8", "replace").decode()
    return '"' + term.replace('"', '""') + '"'
