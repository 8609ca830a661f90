"""Search: full text and vectors together, never worse than full text alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from onward import App, OnwardError
from onward.pipeline.documents import Chunk, Message

NEAR_EVERY = 10
"""Every tenth place goes to what is nearest in meaning and words have not brought up. Mixing the scores made
the results on real mail worse, whatever the weights; see `python -m bench pipeline`."""
LEAST_SIMILARITY = 0.4
NEAREST = 300
"""So many compete for these places, on every page the same."""
MOST_BY_MEANING = 50
"""How many are shown that words do not find at all."""
_TERM = re.compile(r'(-?)"([^"]+)"|(-?)(\S+)')
_WORDS = re.compile(r"\w", re.UNICODE)
_COMMON = frozenset(
    """a an and any are as at be been but by can could did do does for from had has have how i if in is it its
    my no not of on or our so than that the their them then there these they this to was we were what when where
    which who why will with would you your""".split()  # noqa: SIM905 - words are read best as words
)
"""Words not worth marking in an excerpt; they count for the rank all the same, which is better for it."""

Filter = tuple[str, str, str | float]


class NothingAsked(OnwardError):
    """A query has no word to look for."""


@dataclass(frozen=True, slots=True)
class Query:
    """What is asked: words and phrases, and which messages may answer."""

    text: str
    source: str | None = None
    author: str | None = None
    thread: str | None = None
    since: float | None = None
    until: float | None = None

    def terms(self) -> tuple[list[str], list[str]]:
        """The words and phrases that are wanted, and those that are not (`-word`)."""
        wanted: list[str] = []
        unwanted: list[str] = []
        for minus, phrase, also_minus, word in _TERM.findall(self.text):
            term = phrase or word
            if _WORDS.search(term):
                (unwanted if minus or also_minus else wanted).append(term)
        if not wanted:
            raise NothingAsked(f"the query {self.text!r} has no word to look for; give at least one")
        return wanted, unwanted

    def filters(self) -> list[Filter]:
        """What the messages' keys must be."""
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
    """A message that was found, and why."""

    message: Message
    text_score: float
    """How well words match, from 0 to 1 for the best."""
    similarity: float
    """How near it comes in meaning, up to 1."""
    title: str
    excerpt: str
    """What matches stands between `\\x02` and `\\x03`."""


@dataclass(frozen=True, slots=True)
class Results:
    """One page of what was found, best first."""

    hits: list[Hit]
    total: int
    offset: int
    note: str = ""
    """Why words alone were looked for, if so."""


def search(app: App, query: Query, *, limit: int = 10, offset: int = 0) -> Results:
    """Find messages by words and by meaning; the same question has the same order on every page."""
    note = ""
    try:
        ranking = _rank(app, query, most=offset + limit)
    except NothingAsked:
        raise
    except Exception as error:  # whatever ails the model, words can be looked for without it
        ranking = _rank(app, query, most=offset + limit, vectors=False)
        note = f"found by words alone: the embedder cannot be used ({error})"
    page = ranking.first[offset : offset + limit]
    wanted, unwanted = query.terms()
    ids = [one.id for one in page]
    near = ranking.meaning.of(ids) if ranking.meaning else {}
    marked = [term for term in wanted if term.lower() not in _COMMON] or wanted
    excerpts = app.store.excerpts(marked, (), Message, ids)
    if plain := [id for id in ids if id not in excerpts]:  # only words that are not marked have found them
        excerpts |= app.store.excerpts(wanted, unwanted, Message, plain)
    messages = {message.id: message for message in app.store.get_many(Message, ids)}
    hits = [
        _hit(one, near.get(one.id, 0.0), messages[one.id], excerpts.get(one.id))
        for one in page
        if one.id in messages
    ]
    return Results(hits, ranking.total, offset, note)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A message and how well its words match."""

    id: str
    text: float


def rank(app: App, query: Query, *, vectors: bool = True, titles: bool = True) -> list[Ranked]:
    """All messages that answer a query: in the order of full text, joined by what is near in meaning."""
    return _rank(app, query, vectors=vectors, titles=titles).first


@dataclass(frozen=True, slots=True)
class _Ranking:
    """The first of what was found, how many there are of all, and what they are near to."""

    first: list[Ranked]
    total: int
    meaning: _Meaning | None


def _rank(
    app: App, query: Query, *, most: int | None = None, vectors: bool = True, titles: bool = True
) -> _Ranking:
    wanted, unwanted = query.terms()
    meaning = _Meaning(app, query) if vectors else None
    # What holds an unwanted word is only known of what words have found.
    by_meaning = meaning.nearest() if meaning and not unwanted else []
    found = app.store.match(
        wanted,
        unwanted,
        Message,
        titles=titles,
        source=query.source,
        filters=query.filters(),
        limit=most,
        besides=by_meaning,
    )
    best = max((hit.score for hit in found.hits), default=0.0) or 1.0
    text = {hit.id: hit.score / best for hit in found.hits}
    only_near = [id for id in by_meaning if id not in text][:MOST_BY_MEANING]
    joined = _joined(list(text), [id for id in by_meaning if id in text or id in only_near])
    first = [Ranked(id, text.get(id, 0.0)) for id in joined[:most]]
    return _Ranking(first, found.total + len(only_near), meaning)


def _joined(by_words: list[str], by_meaning: list[str]) -> list[str]:
    near = iter(by_meaning)
    joined: dict[str, None] = {}
    for id in by_words:
        if len(joined) % NEAR_EVERY == NEAR_EVERY - 1:
            another = next((one for one in near if one not in joined), None)
            if another is not None:
                joined[another] = None
        joined.setdefault(id)
    joined.update(dict.fromkeys(by_meaning))
    return list(joined)


class _Meaning:
    """What a query means, as a place, and which messages are near to it, each by its nearest chunk."""

    def __init__(self, app: App, query: Query) -> None:
        self._app = app
        self._query = query
        wanted, _ = query.terms()
        (vector,) = app.embedder.embed([" ".join(wanted)]).astype("<f4")
        self._vector = vector.tobytes()

    def nearest(self) -> list[str]:
        """The messages that come nearest, of those that come near."""
        near = self._ask(source=self._query.source, filters=self._query.filters(), limit=NEAREST)
        return [parent for parent, similarity in near.items() if similarity >= LEAST_SIMILARITY]

    def of(self, ids: Sequence[str]) -> dict[str, float]:
        """How near each of these messages comes."""
        return self._ask(among=ids)

    def _ask(self, **more: Any) -> dict[str, float]:
        hits = self._app.store.nearest(
            self._vector, Chunk, model=self._app.embedder.model, parents=Message, each_parent=True, **more
        )
        return {parent: max(0.0, score) for _, parent, score in hits}


def _hit(one: Ranked, similarity: float, message: Message, excerpt: tuple[str, str] | None) -> Hit:
    title, text = excerpt or (message.subject, " ".join(message.new_text()[:400].split()))
    return Hit(message, one.text, similarity, title, " ".join(text.split()))
