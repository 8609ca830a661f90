"""Threads, the one with the newest message first, page by page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onward.app import App
from onward.ops.text.format import iso, one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.pipeline.documents import Summary
    from onward.pipeline.search import Query, Results


from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from onward.pipeline.documents import Summary, Thread


BLOCK = 200
FEW = 1_000
"""A source with at most this many threads is sorted at once; of a larger one, the newest threads are searched."""
MAX_MATCHES = 300
"""A query selects the threads of at most this many best matching messages."""


@dataclass(frozen=True, slots=True)
class ThreadPosition:
    """A thread's place in the order; those without any date come last."""

    id: str
    latest: float | None

    @property
    def rank(self) -> tuple[bool, float, str]:
        return self.latest is None, -(self.latest or 0.0), self.id

    def as_text(self) -> str:
        """Return the position as text, for a URL."""
        return f"{'' if self.latest is None else repr(self.latest)}~{self.id}"

    @classmethod
    def from_text(cls, text: str) -> ThreadPosition | None:
        """Parse the text of `as_text`; None if it is invalid, so that the list starts at its beginning."""
        latest, mark, id = text.partition("~")
        try:
            return cls(id, float(latest) if latest else None) if mark else None
        except ValueError:
            return None


@dataclass(frozen=True, slots=True)
class ThreadEntry:
    """A thread with its summary, as far as there is one."""

    place: ThreadPosition
    thread: Thread
    summary: Summary | None


@dataclass(frozen=True, slots=True)
class ThreadPage:
    """Some threads, and where the list goes on."""

    threads: list[ThreadEntry]
    more: bool
    best_only: bool = False
    """Words match more messages than were looked at."""


def list_threads(
    app: App, *, source: str | None = None, words: str = "", after: ThreadPosition | None = None, limit: int = 50
) -> ThreadPage:
    """Return a page of threads; `words` as in a search, of which the messages have to have some."""
    best_only = False
    if words:
        found, best_only = _matching(app, words, source)
        places: Iterator[ThreadPosition] = iter(sorted(found, key=lambda one: one.rank))
    elif source is not None and sum(app.store.document_counts(source).get("threads", {}).values()) <= FEW:
        places = iter(sorted(_of_source(app, source), key=lambda one: one.rank))
    else:
        places = _newest_first(app, after)
    shown: list[ThreadEntry] = []
    for one in _read(app, (place for place in places if after is None or place.rank > after.rank)):
        if source is None or one.thread.source == source:
            shown.append(one)
        if len(shown) > limit:
            break
    return ThreadPage(shown[:limit], len(shown) > limit, best_only)


def _read(app: App, places: Iterator[ThreadPosition]) -> Iterator[ThreadEntry]:
    from onward.pipeline.documents import Summary, Thread

    while block := list(islice(places, max(1, BLOCK // 4))):
        ids = [one.id for one in block]
        threads = {one.id: one for one in app.store.get_many(Thread, ids)}
        summaries = {one.id: one for one in app.store.get_many(Summary, ids)}
        for one in block:
            if one.id in threads:
                yield ThreadEntry(one, threads[one.id], summaries.get(one.id))


def _newest_first(app: App, after: ThreadPosition | None) -> Iterator[ThreadPosition]:
    """Return all threads by the date of their newest message, read lazily."""
    from onward.pipeline.documents import Message, Thread

    highest = float("inf") if after is None or after.latest is None else after.latest
    if after is None or after.latest is not None:
        dates = sorted(
            (date for date in app.store.key_values("date") if isinstance(date, int | float) and date <= highest),
            reverse=True,
        )
        for start in range(0, len(dates), BLOCK):
            block = dates[start : start + BLOCK]
            ids = {str(thread) for _, thread in app.store.related(Message, "date", block, "thread_id")}
            # A thread that goes on after this block was in one before.
            newest = [
                place
                for place in _places(app, sorted(ids))
                if place.latest is not None and place.latest <= block[0]
            ]
            yield from sorted(newest, key=lambda one: one.rank)
    behind = after.id if after is not None and after.latest is None else ""
    while states := app.store.states(Thread, after=behind, limit=BLOCK):
        behind = states[-1].id
        yield from (place for place in _places(app, [state.id for state in states]) if place.latest is None)


def _places(app: App, ids: Sequence[str]) -> list[ThreadPosition]:
    from onward.pipeline.documents import Message

    latest = app.store.highest_beside(Message, "thread_id", ids, beside="date")
    return [ThreadPosition(id, latest.get(id)) for id in ids]


def _of_source(app: App, source: str) -> list[ThreadPosition]:
    from onward.pipeline.documents import Thread

    ids, behind = [], ""
    while states := app.store.states(Thread, source=source, after=behind, limit=500):
        behind = states[-1].id
        ids += [state.id for state in states]
    return _places(app, ids)


def _matching(app: App, words: str, source: str | None) -> tuple[list[ThreadPosition], bool]:
    from onward.pipeline.documents import Message
    from onward.pipeline.search import Query

    wanted, unwanted = Query(words).terms()
    found = app.store.match(wanted, unwanted, Message, source=source, limit=MAX_MATCHES)
    messages = app.store.get_many(Message, [hit.id for hit in found.hits])
    return _places(app, sorted({message.thread_id for message in messages})), found.total > MAX_MATCHES


FIRST_LINES = 220
_MARKUP = re.compile(r"\\([*\[\]<\\_`])|[*`#]+|(?<!\w)_+|_+(?!\w)|\[\d+\]")
"""What is no text; of a character that is escaped, the backslash."""


def search_facts(query: Query, found: Results, page: int) -> dict[str, object]:
    """Return a page of search results, for programs."""
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
                "excerpt": unmarked(hit.excerpt),
            }
            for rank, hit in enumerate(found.hits, found.offset + 1)
        ],
    }


def unmarked(text: str) -> str:
    """Return an excerpt without the marks of its matching words."""
    return text.replace("\x02", "").replace("\x03", "")


def read_summaries(app: App, source: str | None) -> Iterator[tuple[Summary, float | None]]:
    """Yield every summary, with the date of its thread's newest message."""
    from onward.pipeline.documents import Message, Summary

    after = ""
    while states := app.store.states(Summary, source=source, after=after, limit=500):
        after = states[-1].id
        ids = [state.id for state in states]
        latest = app.store.highest_beside(Message, "thread_id", ids, beside="date")
        for summary in app.store.get_many(Summary, ids):
            yield summary, latest.get(summary.id)


def summary_facts(one: Summary, latest: float | None) -> dict[str, object]:
    """Return a summary, for programs."""
    return one.model_dump(mode="json") | {"latest_message": iso(latest)}


def first_lines(markdown: str) -> str:
    """Return the first lines of a summary, without its markup."""
    return one_line(" ".join(_MARKUP.sub(r"\1", markdown.partition("\n#")[0]).split()), FIRST_LINES)
