"""Threads, the one with the newest message first, page by page; summaries and search results."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from onward.app import App
from onward.ops.lookup import pages
from onward.ops.text.format import iso, one_line
from onward.pipeline.documents import Message, Summary, Thread
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.pipeline.search import Query, Results

BLOCK = 200
FEW = 1_000  # a source with at most this many threads is sorted at once; of a larger one, the newest are searched
MAX_MATCHES = 300  # a query selects the threads of at most this many best matching messages
FIRST_LINES = 220
# What is no text; of a character that is escaped, the backslash.
_MARKUP = re.compile(r"\\([*\[\]<\\_`])|[*`#]+|(?<!\w)_+|_+(?!\w)|\[\d+\]")


class ThreadPosition(NamedTuple):
    """A thread's place in the order; those without any date come last."""

    id: str
    latest: float | None

    @property
    def rank(self) -> tuple[bool, float, str]:
        return self.latest is None, -(self.latest or 0.0), self.id

    def as_text(self) -> str:
        return f"{'' if self.latest is None else repr(self.latest)}~{self.id}"

    @classmethod
    def from_text(cls, text: str) -> ThreadPosition | None:
        """Parse the text of `as_text`; None if it is invalid, so that the list starts at its beginning."""
        latest, mark, id = text.partition("~")
        try:
            return cls(id, float(latest) if latest else None) if mark else None
        except ValueError:
            return None


class ThreadEntry(NamedTuple):
    place: ThreadPosition
    thread: Thread
    summary: Summary | None


class ThreadPage(NamedTuple):
    threads: list[ThreadEntry]
    more: bool
    best_only: bool = False  # words match more messages than were looked at


def list_threads(
    app: App, *, source: str | None = None, words: str = "", after: ThreadPosition | None = None, limit: int = 50
) -> ThreadPage:
    """Return a page of threads; `words` as in a search, of which the messages have to have some."""
    best_only = False
    if words:
        found, best_only = _matching(app, words, source)
        places: Iterable[ThreadPosition] = sorted(found, key=lambda one: one.rank)
    elif source is not None and sum(app.store.document_counts(source).get("threads", {}).values()) <= FEW:
        ids = [id for page in _id_pages(app, Thread, source, size=500) for id in page]
        places = sorted(_places(app, ids), key=lambda one: one.rank)
    else:
        places = _newest_first(app, after)
    entries = _read(app, (place for place in places if after is None or place.rank > after.rank))
    wanted = (one for one in entries if source is None or one.thread.source == source)
    shown = list(islice(wanted, limit + 1))
    return ThreadPage(shown[:limit], len(shown) > limit, best_only)


def _read(app: App, places: Iterable[ThreadPosition]) -> Iterator[ThreadEntry]:
    for block in pages(places, max(1, BLOCK // 4)):
        ids = [one.id for one in block]
        threads = {one.id: one for one in app.store.get_many(Thread, ids)}
        summaries = {one.id: one for one in app.store.get_many(Summary, ids)}
        for one in block:
            if one.id in threads:
                yield ThreadEntry(one, threads[one.id], summaries.get(one.id))


def _newest_first(app: App, after: ThreadPosition | None) -> Iterator[ThreadPosition]:
    """Return all threads by the date of their newest message, read lazily."""
    highest = float("inf") if after is None or after.latest is None else after.latest
    if after is None or after.latest is not None:
        dates = (date for date in app.store.key_values("date") if isinstance(date, int | float))
        for block in pages(sorted((date for date in dates if date <= highest), reverse=True), BLOCK):
            ids = {str(thread) for _, thread in app.store.related(Message, "date", block, "thread_id")}
            # A thread that goes on after this block was in one before.
            newest = (one for one in _places(app, sorted(ids)) if (one.latest or 0.0) <= block[0])
            yield from sorted((one for one in newest if one.latest is not None), key=lambda one: one.rank)
    behind = after.id if after is not None and after.latest is None else ""
    for page in _id_pages(app, Thread, None, size=BLOCK, after=behind):
        yield from (place for place in _places(app, page) if place.latest is None)


def _places(app: App, ids: Sequence[str]) -> list[ThreadPosition]:
    latest = app.store.highest_beside(Message, "thread_id", ids, beside="date")
    return [ThreadPosition(id, latest.get(id)) for id in ids]


def _id_pages(
    app: App, kind: type[Thread | Summary], source: str | None, *, size: int, after: str = ""
) -> Iterator[list[str]]:
    while states := app.store.states(kind, source=source, after=after, limit=size):
        after = states[-1].id
        yield [state.id for state in states]


def _matching(app: App, words: str, source: str | None) -> tuple[list[ThreadPosition], bool]:
    from onward.pipeline.search import Query

    wanted, unwanted = Query(words).terms()
    found = app.store.match(wanted, unwanted, Message, source=source, limit=MAX_MATCHES)
    messages = app.store.get_many(Message, [hit.id for hit in found.hits])
    return _places(app, sorted({message.thread_id for message in messages})), found.total > MAX_MATCHES


def read_summaries(app: App, source: str | None) -> Iterator[tuple[Summary, float | None]]:
    """Yield every summary, with the date of its thread's newest message."""
    for ids in _id_pages(app, Summary, source, size=500):
        latest = {place.id: place.latest for place in _places(app, ids)}
        for summary in app.store.get_many(Summary, ids):
            yield summary, latest[summary.id]


def summary_facts(one: Summary, latest: float | None) -> dict[str, object]:
    return one.model_dump(mode="json") | {"latest_message": iso(latest)}


def first_lines(markdown: str) -> str:
    """Return the first lines of a summary, without its markup."""
    return one_line(" ".join(_MARKUP.sub(r"\1", markdown.partition("\n#")[0]).split()), FIRST_LINES)


def search_facts(query: Query, found: Results, page: int) -> dict[str, object]:
    return {
        "query": query.text,
        "total": found.total,
        "note": redact(found.note),
        "page": page,
        "results": [
            {
                "rank": rank,
                "id": hit.message.id,
                "thread_id": hit.message.thread_id,
                "subject": hit.message.subject,
                "author": hit.message.author,
                "date": iso(hit.message.date),
                "source": redact(hit.message.source),
                "text_score": round(hit.text_score, 6),
                "similarity": round(hit.similarity, 6),
                "excerpt": hit.excerpt.replace("\x02", "").replace("\x03", ""),  # marks of matching words
            }
            for rank, hit in enumerate(found.hits, found.offset + 1)
        ],
    }
