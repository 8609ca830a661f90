"""Search by words (full text), joined by the nearest vectors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from itertools import islice
from typing import Any, NamedTuple

from onward import App, OnwardError
from onward.pipeline.documents import Chunk, Message

VECTOR_HIT_EVERY = 10
"""Every tenth place goes to the nearest vector that is not in the list yet. Mixing the scores made the results
on real mail worse, with any weights; see `python -m bench pipeline`."""
MIN_SIMILARITY = 0.4
MAX_VECTOR_HITS = 300  # the nearest messages that compete for these places, the same on every page
MAX_VECTOR_ONLY_HITS = 50  # hits without any of the words
_TERM = re.compile(r'(-?)(?:"([^"]+)"|(\S+))')
_WORDS = re.compile(r"\w", re.UNICODE)
_COMMON = frozenset(
    """a an and any are as at be been but by can could did do does for from had has have how i if in is it its
    my no not of on or our so than that the their them then there these they this to was we were what when where
    which who why will with would you your""".split()  # noqa: SIM905 - words are read best as words
)
"""Words that are not marked in an excerpt; they count for the rank, which improves the results."""


class EmptyQuery(OnwardError):
    """A query has no word to search for."""


@dataclass(frozen=True, slots=True)
class Query:
    """Words and phrases to search for, and filters."""

    text: str
    source: str | None = None
    author: str | None = None
    thread: str | None = None
    since: float | None = None
    until: float | None = None

    def terms(self) -> tuple[list[str], list[str]]:
        """Return the wanted words and phrases, and the unwanted ones (`-word`)."""
        wanted: list[str] = []
        unwanted: list[str] = []
        for minus, phrase, word in _TERM.findall(self.text):
            if _WORDS.search(phrase or word):
                (unwanted if minus else wanted).append(phrase or word)
        if not wanted:
            raise EmptyQuery(f"the query {self.text!r} has no word to look for; give at least one")
        return wanted, unwanted

    def filters(self) -> list[tuple[str, str, str | float]]:
        author = "%" + re.sub(r"([%_\\])", r"\\\1", self.author) + "%" if self.author else None
        found = [
            ("author", "like", author),
            ("thread_id", "=", self.thread or None),
            ("date", ">=", self.since),
            ("date", "<", self.until),
        ]
        return [(key, relation, value) for key, relation, value in found if value is not None]


@dataclass(frozen=True, slots=True)
class Hit:
    message: Message
    text_score: float  # the score of the words, from 0 to 1 for the best hit
    similarity: float  # the cosine similarity of its nearest chunk, up to 1
    title: str
    excerpt: str  # matches are between `\x02` and `\x03`


@dataclass(frozen=True, slots=True)
class Results:
    hits: list[Hit]
    total: int
    offset: int
    note: str = ""  # why vectors were not used, if so


def search(app: App, query: Query, *, limit: int = 10, offset: int = 0) -> Results:
    """Find messages by words and vectors; the order is the same on every page."""
    note = ""
    try:
        ranking = rank(app, query, most=offset + limit)
    except EmptyQuery:
        raise
    except Exception as error:  # of any kind: a search by words needs no model
        ranking = rank(app, query, most=offset + limit, vectors=False)
        note = f"found by words alone: the embedder cannot be used ({error})"
    ids = ranking.ids[offset : offset + limit]
    near = _nearest(app, ranking.vector, among=ids) if ranking.vector else {}
    wanted, unwanted = query.terms()
    marked = [term for term in wanted if term.lower() not in _COMMON] or wanted
    excerpts = app.store.excerpts(marked, (), Message, ids)
    if plain := [id for id in ids if id not in excerpts]:  # found only by words that are not marked
        excerpts |= app.store.excerpts(wanted, unwanted, Message, plain)
    hits = []
    for message in app.store.get_many(Message, ids):
        id = message.id
        title, text = excerpts.get(id) or (message.subject, message.new_text()[:400])
        hits.append(Hit(message, ranking.scores.get(id, 0.0), near.get(id, 0.0), title, " ".join(text.split())))
    return Results(hits, ranking.total, offset, note)


class Ranking(NamedTuple):
    """The first messages that match a query, best first."""

    ids: list[str]
    scores: dict[str, float]  # of their words
    total: int
    vector: bytes | None  # of the query


def rank(app: App, query: Query, *, most: int | None = None, vectors: bool = True, titles: bool = True) -> Ranking:
    """Return the messages that match a query, or the first `most` of them, best first."""
    wanted, unwanted = query.terms()
    vector, by_vector = None, list[str]()
    source, filters = query.source, query.filters()
    if vectors:
        vector = app.embedder.embed([" ".join(wanted)]).astype("<f4")[0].tobytes()
        if not unwanted:  # these are only excluded by full text
            near = _nearest(app, vector, source=source, filters=filters, limit=MAX_VECTOR_HITS)
            by_vector = [id for id, similarity in near.items() if similarity >= MIN_SIMILARITY]
    found = app.store.match(
        wanted, unwanted, Message, titles=titles, source=source, filters=filters, limit=most, besides=by_vector
    )
    best = max((hit.score for hit in found.hits), default=0.0) or 1.0
    scores = {hit.id: hit.score / best for hit in found.hits}
    only_near = [id for id in by_vector if id not in scores][:MAX_VECTOR_ONLY_HITS]
    by_vector = [id for id in by_vector if id in scores or id in only_near]
    nearest = iter(by_vector)
    joined: dict[str, None] = {}
    for id in scores:
        if len(joined) % VECTOR_HIT_EVERY == VECTOR_HIT_EVERY - 1:
            joined |= dict.fromkeys(islice((id for id in nearest if id not in joined), 1))
        joined.setdefault(id)
    joined |= dict.fromkeys(by_vector)
    return Ranking(list(joined)[:most], scores, found.total + len(only_near), vector)


def _nearest(app: App, vector: bytes, **more: Any) -> dict[str, float]:
    """Return the nearest messages; the similarity of a message is that of its nearest chunk."""
    model = app.embedder.model
    hits = app.store.nearest(vector, Chunk, model=model, parents=Message, each_parent=True, **more)
    return {parent: max(0.0, score) for _, parent, score in hits}
