"""Search over messages: what a person types, ranked by words and vectors, with excerpts and facets."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, tzinfo
from typing import Literal

from onward import App
from onward.models.protocol import Embedder
from onward.pipeline.documents import Chunk, Message
from onward.pipeline.query_language import FIELDS, KINDS, EmptyQuery, ParsedQuery, parse, replace_words
from onward.pipeline.reranking import RERANKED, reranked
from onward.pipeline.saved_searches import expand
from onward.search import Filter, words
from onward.search.fusion import VECTOR_WEIGHTS, Ranking, RankingQuery, Reason
from onward.search.postings import field_prefix
from onward.search.ranking import TextQuery, telling_terms
from onward.search.suggestions import completions, corrections
from onward.search.vector_index import VectorSpace
from onward.search.words import is_question

__all__ = ["EmptyQuery", "Hit", "Query", "Reason", "Results", "search", "similar", "suggest"]

FACETS = ("source", "author", "year", "kind", "language")
MODEL_WEIGHTS = (0.1, 0.5)  # Of the vectors of larger models than the built-in one
STATIC_MODELS = ("static:", "local:model2vec-")
_WORDS = re.compile(r"[^\W_]+")
_LAST_WORD = re.compile(r"[^\W\d_]{2,}$")
GROUP = "thread"  # The facet whose messages lift each other


@dataclass(frozen=True, slots=True)
class Query:
    """What a person typed, with its operators, and filters that were chosen besides."""

    text: str
    source: str | None = None
    author: str | None = None  # a part of a name or an address
    thread: str | None = None
    since: float | None = None
    until: float | None = None
    kind: str | None = None  # one of `KINDS`
    language: str | None = None
    year: int | None = None
    sort: Literal["relevance", "date"] = "relevance"
    zone: tzinfo | None = None  # of the dates in its text that name none; None: that of this process

    def filters(self) -> list[Filter]:
        exact = {"source": self.source, "thread": self.thread, "language": self.language}
        found: list[Filter] = [(name, "=", value) for name, value in exact.items() if value]
        if self.kind:
            found += [("kind", "=", kind) for kind in KINDS.get(self.kind, (self.kind,))]
        if self.author:
            found.append(("author", "contains", self.author))
        if self.since is not None:
            found.append(("date", ">=", self.since))
        if self.until is not None:
            found.append(("date", "<", self.until))
        if self.year is not None:
            first, last = (datetime(year, 1, 1, tzinfo=UTC).timestamp() for year in (self.year, self.year + 1))
            found += [("date", ">=", first), ("date", "<", last)]
        return found


@dataclass(frozen=True, slots=True)
class Hit:
    message: Message
    score: float  # from 0 to 1, by which the hits are ordered
    text_score: float  # the score of the words, from 0 to 1 for the best hit
    similarity: float  # the cosine similarity of its nearest chunk, up to 1
    title: str
    excerpt: str  # matches are between `\x02` and `\x03`
    reasons: tuple[Reason, ...] = ()

    @property
    def path(self) -> str:
        """The path inside its source; empty for the source itself."""
        return self.message.path


@dataclass(frozen=True, slots=True)
class Results:
    hits: list[Hit]
    total: int  # messages that match well
    offset: int
    note: str = ""  # why vectors were not used, if so
    facets: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    did_you_mean: str = ""  # the query with words of the store in place of unknown ones
    unknown: tuple[str, ...] = ()  # wanted words that no message has
    every: int = 0  # messages that match at all
    parsed: ParsedQuery | None = None  # how the query was understood
    embedder: str = ""  # the model whose vectors were used; empty: found by words alone


def search(
    app: App,
    query: Query,
    *,
    limit: int = 10,
    offset: int = 0,
    facets: bool = False,
    explain: bool = False,
    vectors: bool = True,
) -> Results:
    """Find messages by words and vectors; the order is the same on every page."""
    text, chosen = expand(app, query.text), query.filters()
    parsed = parse(text, may_be_empty=bool(chosen), zone=query.zone)
    texts = app.store.texts(Message)
    embedder, vector, note = None, b"", ""
    question = is_question(text, texts.languages())
    asked = " ".join(term.text for term in telling_terms(parsed.wanted, texts.languages(), question=question))
    if vectors and asked:
        embedder, vector, note = _query_vector(app, asked)
    typed = " ".join(term.text for term in parsed.wanted)
    # The order of the best hits is the reranker's, whichever page is asked for.
    reranks = vectors and bool(typed) and query.sort == "relevance" and offset < RERANKED and app.has_reranker
    first, last = (0, max(RERANKED, offset + limit)) if reranks else (offset, offset + limit)
    ranking_query = RankingQuery(
        TextQuery(
            parsed.wanted,
            required=parsed.required,
            unwanted=parsed.unwanted,
            filters=parsed.filters,
            more_filters=chosen,
            unwanted_filters=parsed.unwanted_filters,
            question=question,
        ),
        vector or None,
        _space(embedder) if embedder else None,
        VECTOR_WEIGHTS if embedder is None or embedder.model.startswith(STATIC_MODELS) else MODEL_WEIGHTS,
        group=GROUP,
        sort=query.sort,
        facets=FACETS if facets else (),
        limit=last - first,
        offset=first,
        explain=explain,
        vague=not any(term.field or term.phrase or term.prefix for term in parsed.wanted),
    )
    ranking = app.store.search(texts, ranking_query)
    better = ""
    if ranking.unknown and (meant := corrections(texts, ranking.unknown)):
        better = replace_words(parsed, meant)
    hits = _hits(app, ranking, _typed_words(parsed, texts.languages()) if explain else {})
    if reranks:
        hits, why_not = reranked(app, typed, hits, explain=explain)
        hits, note = hits[offset : offset + limit], "; ".join(filter(None, (note, why_not)))
    model = embedder.model if embedder is not None else ""
    return Results(
        hits, ranking.total, offset, note, ranking.facets, better, ranking.unknown, ranking.every, parsed, model
    )


def _query_vector(app: App, text: str) -> tuple[Embedder | None, bytes, str]:
    """Return the vector of a query, the model that made it, and a note if a better one cannot be used."""
    note = ""
    try:
        if (better := _better_embedder(app)) is not None:
            return better, _embed_query(better, text), ""
    except Exception as error:  # of any kind: vectors of the usual model are there as well
        note = f"found by words and {app.embedder.model}: the better model cannot be used ({error})"
    try:
        return app.embedder, _embed_query(app.embedder, text), note
    except Exception as error:  # of any kind: a search by words needs no model
        return None, b"", f"found by words alone: the embedder cannot be used ({error})"


def _better_embedder(app: App) -> Embedder | None:
    if app.settings.embedder_upgrade is None:
        return None
    from onward.pipeline.vector_upgrade import better_embedder  # takes a while to import

    return better_embedder(app)


def _embed_query(embedder: Embedder, text: str) -> bytes:
    vector: bytes = embedder.embed([text], query=True).astype("<f4")[0].tobytes()
    return vector


def _space(embedder: Embedder) -> VectorSpace:
    return VectorSpace(embedder.model, Chunk.collection)


def _typed_words(parsed: ParsedQuery, languages: Sequence[str]) -> dict[str, str]:
    """Return the words as they were typed, by the terms of the index that rank them."""
    operators = {name: f"{operator}:" for operator, name in FIELDS.items()} | {"": ""}
    typed = {}
    for term in parsed.wanted:
        prefix = field_prefix(term.field)
        for word in _WORDS.findall(term.text):
            for terms in words.query_terms(word, languages):
                typed[prefix + terms[0]] = operators[term.field] + word
    return typed


def _hits(app: App, ranking: Ranking, typed: Mapping[str, str]) -> list[Hit]:
    messages = {message.id: message for message in app.store.get_many(Message, [hit.id for hit in ranking.hits])}
    languages = {id: message.language for id, message in messages.items()}
    excerpts = app.store.excerpts(Message, languages, ranking.terms)
    hits = []
    for found in ranking.hits:
        if (message := messages.get(found.id)) is not None:
            title, text = excerpts.get(found.id) or (message.subject, message.new_text()[:400])
            excerpt = " ".join(text.split())
            reasons = tuple(Reason(typed.get(one.word, one.word), one.score) for one in found.reasons)
            hits.append(Hit(message, found.score, found.text_score, found.similarity, title, excerpt, reasons))
    return hits


def messages_titled(app: App, text: str, *, limit: int) -> list[str]:
    """Return the ids of messages with all of these words in their subject, or in their path, the newest first.

    The last word may be the beginning of one. The index has every message as soon as it is stored.
    """
    typed = _WORDS.findall(text)
    if not typed:
        return []
    texts, found = app.store.texts(Message), dict[str, None]()
    for operator in ("subject", "path"):
        asked = [f"{operator}:{word}" for word in typed]
        asked[-1] += "*" if len(typed[-1]) > 1 else ""
        parsed = parse(" ".join(asked))
        wanted = TextQuery(parsed.wanted, required=parsed.required, filters=parsed.filters)
        ranking = app.store.search(texts, RankingQuery(wanted, sort="date", limit=limit, vague=False))
        found |= dict.fromkeys(hit.id for hit in ranking.hits)
    return list(found)[:limit]


def suggest(app: App, text: str, *, limit: int = 8) -> list[str]:
    """Return the query with its last word completed in several ways, from the words of the store."""
    begun = _LAST_WORD.search(text)
    if begun is None:
        return []
    words = completions(app.store.texts(Message), begun[0], limit)
    return [text[: begun.start()] + word for word in words]


def similar(app: App, message_id: str, *, limit: int = 10) -> Results:
    """Find messages that are about the same as a message, by its most telling words and its chunks."""
    space = _space(_better_embedder(app) or app.embedder)
    ranking = app.store.similar(app.store.texts(Message), message_id, space=space, limit=limit)
    return Results(_hits(app, ranking, {}), ranking.total, 0, every=ranking.every)
