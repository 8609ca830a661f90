"""Search by words (full text), joined by the nearest vectors."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onward import App, OnwardError
from onward.pipeline.documents import Chunk, Message

VECTOR_HIT_EVERY = 10
"""Every tenth place goes to the nearest vector that is not in the list yet. Mixing the scores made the results
on real mail worse, with any weights; see `python -m bench pipeline`."""
MIN_SIMILARITY = 0.4
MAX_VECTOR_HITS = 300  # the nearest messages that compete for these places, the same on every page
MAX_VECTOR_ONLY_HITS = 50  # hits without any of the words
_TERM = re.compile(r'(-?)"([^"]+)"|(-?)(\S+)')
_WORDS = re.compile(r"\w", re.UNICODE)
_COMMON = frozenset(
    """a an and any are as at be been but by can could did do does for from had has have how i if in is it its
    my no not of on or our so than that the their them then there these they this to was we were what when where
    which who why will with would you your""".split()  # noqa: SIM905 - words are read best as words
)
"""Words that are not marked in an excerpt; they count for the rank, which improves the results."""

Filter = tuple[str, str, str | float]


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
        for minus, phrase, also_minus, word in _TERM.findall(self.text):
            term = phrase or word
            if _WORDS.search(term):
                (unwanted if minus or also_minus else wanted).append(term)
        if not wanted:
            raise EmptyQuery(f"the query {self.text!r} has no word to look for; give at least one")
        return wanted, unwanted

    def filters(self) -> list[Filter]:
        """Return the conditions on the keys of messages."""
        found: list[Filter] = []
        if self.author:
            found.append(("author", "like", "%" + re.sub(r"([%_\\])", r"\\\1", self.author) + "%"))
        if self.thread:
            found.append(("thread_id", "=", self.thread))
        if self.since is not None:
            found.append(("date", ">=", self.since))
        if self.until is not None:
            found.append(("date", "<", self.until))
        return found


@dataclass(frozen=True, slots=True)
class Hit:
    """A message that was found."""

    message: Message
    text_score: float  # the score of the words, from 0 to 1 for the best hit
    similarity: float  # the cosine similarity of its nearest chunk, up to 1
    title: str
    excerpt: str  # matches are between `\x02` and `\x03`


@dataclass(frozen=True, slots=True)
class Results:
    """One page of hits, best first."""

    hits: list[Hit]
    total: int
    offset: int
    note: str = ""  # why vectors were not used, if so


def search(app: App, query: Query, *, limit: int = 10, offset: int = 0) -> Results:
    """Find messages by words and vectors; the order is the same on every page."""
    note = ""
    try:
        ranking = _rank(app, query, most=offset + limit)
    except EmptyQuery:
        raise
    except Exception as error:  # of any kind: a search by words needs no model
        ranking = _rank(app, query, most=offset + limit, vectors=False)
        note = f"found by words alone: the embedder cannot be used ({error})"
    page = ranking.first[offset : offset + limit]
    wanted, unwanted = query.terms()
    ids = [ranked.id for ranked in page]
    near = ranking.vector.similarities(ids) if ranking.vector else {}
    marked = [term for term in wanted if term.lower() not in _COMMON] or wanted
    excerpts = app.store.excerpts(marked, (), Message, ids)
    if plain := [id for id in ids if id not in excerpts]:  # found only by words that are not marked
        excerpts |= app.store.excerpts(wanted, unwanted, Message, plain)
    messages = {message.id: message for message in app.store.get_many(Message, ids)}
    hits = [
        _hit(ranked, near.get(ranked.id, 0.0), messages[ranked.id], excerpts.get(ranked.id))
        for ranked in page
        if ranked.id in messages
    ]
    return Results(hits, ranking.total, offset, note)


@dataclass(frozen=True, slots=True)
class RankedMessage:
    """A message and the score of its words."""

    id: str
    text: float


def rank(app: App, query: Query, *, vectors: bool = True, titles: bool = True) -> list[RankedMessage]:
    """Return all messages that match a query, best first."""
    return _rank(app, query, vectors=vectors, titles=titles).first


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The first ranked messages, the number of all, and the vector of the query."""

    first: list[RankedMessage]
    total: int
    vector: _QueryVector | None


def _rank(
    app: App, query: Query, *, most: int | None = None, vectors: bool = True, titles: bool = True
) -> _Ranking:
    wanted, unwanted = query.terms()
    vector = _QueryVector(app, query) if vectors else None
    # Unwanted words are only excluded by full text.
    by_vector = vector.nearest() if vector and not unwanted else []
    found = app.store.match(
        wanted,
        unwanted,
        Message,
        titles=titles,
        source=query.source,
        filters=query.filters(),
        limit=most,
        besides=by_vector,
    )
    best = max((hit.score for hit in found.hits), default=0.0) or 1.0
    text = {hit.id: hit.score / best for hit in found.hits}
    only_near = [id for id in by_vector if id not in text][:MAX_VECTOR_ONLY_HITS]
    joined = _joined(list(text), [id for id in by_vector if id in text or id in only_near])
    first = [RankedMessage(id, text.get(id, 0.0)) for id in joined[:most]]
    return _Ranking(first, found.total + len(only_near), vector)


def _joined(by_words: list[str], by_vector: list[str]) -> list[str]:
    near = iter(by_vector)
    joined: dict[str, None] = {}
    for id in by_words:
        if len(joined) % VECTOR_HIT_EVERY == VECTOR_HIT_EVERY - 1:
            another = next((id for id in near if id not in joined), None)
            if another is not None:
                joined[another] = None
        joined.setdefault(id)
    joined.update(dict.fromkeys(by_vector))
    return list(joined)


class _QueryVector:
    """The vector of a query; the similarity of a message is that of its nearest chunk."""

    def __init__(self, app: App, query: Query) -> None:
        self._app = app
        self._query = query
        wanted, _ = query.terms()
        (vector,) = app.embedder.embed([" ".join(wanted)]).astype("<f4")
        self._vector = vector.tobytes()

    def nearest(self) -> list[str]:
        """Return the nearest messages with at least `MIN_SIMILARITY`."""
        near = self._search(source=self._query.source, filters=self._query.filters(), limit=MAX_VECTOR_HITS)
        return [parent for parent, similarity in near.items() if similarity >= MIN_SIMILARITY]

    def similarities(self, ids: Sequence[str]) -> dict[str, float]:
        """Return the similarity of each of these messages."""
        return self._search(among=ids)

    def _search(self, **more: Any) -> dict[str, float]:
        hits = self._app.store.nearest(
            self._vector, Chunk, model=self._app.embedder.model, parents=Message, each_parent=True, **more
        )
        return {parent: max(0.0, score) for _, parent, score in hits}


def _hit(ranked: RankedMessage, similarity: float, message: Message, excerpt: tuple[str, str] | None) -> Hit:
    title, text = excerpt or (message.subject, " ".join(message.new_text()[:400].split()))
    return Hit(message, ranked.text, similarity, title, " ".join(text.split()))
