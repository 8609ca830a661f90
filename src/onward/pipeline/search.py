"""Search: full text and vectors together, never worse than full text alone."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from onward import App, OnwardError
from onward.pipeline.documents import Chunk, Message

NEAR_EVERY = 10
"""Every tenth place goes to what is nearest in meaning and words have not brought up. Mixing the scores made
the results on real mail worse, whatever the weights; see `python -m bench pipeline`."""
LEAST_SIMILARITY = 0.4
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
        ranked = rank(app, query)
    except NothingAsked:
        raise
    except Exception as error:  # whatever ails the model, words can be looked for without it
        ranked = rank(app, query, vectors=False)
        note = f"found by words alone: the embedder cannot be used ({error})"
    page = ranked[offset : offset + limit]
    wanted, unwanted = query.terms()
    ids = [one.id for one in page]
    marked = [term for term in wanted if term.lower() not in _COMMON] or wanted
    excerpts = app.store.excerpts(wanted, unwanted, Message, ids) | app.store.excerpts(marked, (), Message, ids)
    messages = {message.id: message for message in app.store.get_many(Message, ids)}
    hits = [_hit(one, messages[one.id], excerpts.get(one.id)) for one in page if one.id in messages]
    return Results(hits, len(ranked), offset, note)


@dataclass(frozen=True, slots=True)
class Ranked:
    """A message and what speaks for it."""

    id: str
    text: float
    similarity: float


def rank(app: App, query: Query, *, vectors: bool = True, titles: bool = True) -> list[Ranked]:
    """All messages that answer a query: in the order of full text, joined by what is near in meaning."""
    wanted, unwanted = query.terms()
    filters = query.filters()
    found = app.store.match(wanted, unwanted, Message, titles=titles, source=query.source, filters=filters)
    best = max((hit.score for hit in found), default=0.0) or 1.0
    text = {hit.id: hit.score / best for hit in found}
    near = _nearest(app, query, filters) if vectors else {}
    # What holds an unwanted word is only known of what words have found.
    by_meaning = [id for id, similarity in near.items() if similarity >= LEAST_SIMILARITY and not unwanted]
    return [Ranked(id, text.get(id, 0.0), near.get(id, 0.0)) for id in _joined(list(text), by_meaning)]


def _joined(by_words: list[str], by_meaning: list[str]) -> list[str]:
    known = set(by_words)
    only_near = [id for id in by_meaning if id not in known][:MOST_BY_MEANING]
    near = iter(id for id in by_meaning if id in known or id in only_near)
    joined: dict[str, None] = {}
    for id in by_words:
        if len(joined) % NEAR_EVERY == NEAR_EVERY - 1:
            another = next((one for one in near if one not in joined), None)
            if another is not None:
                joined[another] = None
        joined.setdefault(id)
    joined.update(dict.fromkeys(only_near))
    return list(joined)


def _nearest(app: App, query: Query, filters: Sequence[Filter]) -> dict[str, float]:
    """How near each message comes to the query, by its nearest chunk."""
    wanted, _ = query.terms()
    embedder = app.embedder
    (vector,) = embedder.embed([" ".join(wanted)]).astype("<f4")
    hits = app.store.nearest(
        vector.tobytes(),
        Chunk,
        model=embedder.model,
        parents=Message,
        source=query.source,
        filters=filters,
        each_parent=True,
    )
    return {parent: max(0.0, score) for _, parent, score in hits}


def _hit(one: Ranked, message: Message, excerpt: tuple[str, str] | None) -> Hit:
    title, text = excerpt or (message.subject, " ".join(message.new_text()[:400].split()))
    return Hit(message, one.text, one.similarity, title, " ".join(text.split()))
