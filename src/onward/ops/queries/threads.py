"""Threads, the one with the newest message first, page by page; summaries."""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import NamedTuple

from onward.app import App
from onward.ops.lookup import pages
from onward.ops.text.format import iso, one_line
from onward.pipeline.documents import Message, Summary, Thread, source_id

BLOCK = 200
FEW = 1_000  # a source with at most this many threads is sorted at once; of a larger one, the newest are searched
MAX_MATCHES = 300  # a query selects the threads of at most this many best matching messages
FIRST_LINES = 220
# What is no text; of a character that is escaped, the backslash.
_MARKUP = re.compile(r"\\([*\[\]<\\_`])|[*`]+|(?m:^#+\s)|(?<!\w)_+|_+(?!\w)|\[\d+\]")


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
    files: int = 0  # files and web pages that were left out


def list_threads(
    app: App,
    *,
    source: str | None = None,
    words: str = "",
    files: bool = False,
    after: ThreadPosition | None = None,
    limit: int = 50,
) -> ThreadPage:
    """Return a page of threads of mail, with `files` those of single files and web pages, too.

    `words` are as in a search: the messages have to have some.
    """
    best_only = False
    left_out = 0
    known: int | None = None  # how many threads there are to list
    if words:
        found, best_only = _matching(app, words, source)
        places: Iterable[ThreadPosition] = sorted(found, key=lambda one: one.rank)
        left_out = 0 if files else len(_files(app, [one.id for one in found]))
    else:
        counts = app.store.document_counts(source).get("threads", {})
        known = sum(counts.values())
        if not files:
            left_out = count_files(app, source)
            known -= left_out
        if source is not None and sum(counts.values()) <= FEW:
            ids = [id for page in _id_pages(app, Thread, source, size=FEW) for id in page]
            places = sorted(_places(app, ids), key=lambda one: one.rank)
        else:
            places = _newest_first(app, after, files=files)
    behind = (place for place in places if after is None or place.rank > after.rank)
    entries = _read(app, behind if files else _without_files(app, behind))
    wanted = (one for one in entries if source is None or one.thread.source == source)
    # What comes after the last thread of mail is not read: there may be many files.
    shown = list(islice(wanted, limit + 1 if known is None or after is not None else min(limit + 1, known)))
    return ThreadPage(shown[:limit], len(shown) > limit, best_only, left_out)


def count_files(app: App, source: str | None) -> int:
    """Count the files and web pages of a source, or of all: each is a thread of its own."""
    ids = [source_id(one) for one in ([source] if source is not None else app.store.sources())]
    return app.store.keyed_count("file", ids)


def _files(app: App, ids: Sequence[str]) -> set[str]:
    """Return the threads that are files or web pages."""
    return {str(thread) for thread, _ in app.store.related(Message, "thread_id", ids, "file")}


def _without_files(app: App, places: Iterable[ThreadPosition]) -> Iterator[ThreadPosition]:
    for block in pages(places, BLOCK):
        files = _files(app, [one.id for one in block])
        yield from (one for one in block if one.id not in files)


def _read(app: App, places: Iterable[ThreadPosition]) -> Iterator[ThreadEntry]:
    for block in pages(places, max(1, BLOCK // 4)):
        ids = [one.id for one in block]
        threads = {one.id: one for one in app.store.get_many(Thread, ids)}
        summaries = {one.id: one for one in app.store.get_many(Summary, ids)}
        for one in block:
            if one.id in threads:
                yield ThreadEntry(one, threads[one.id], summaries.get(one.id))


def _newest_first(app: App, after: ThreadPosition | None, *, files: bool) -> Iterator[ThreadPosition]:
    """Return all threads by the date of their newest message, read lazily."""
    others = () if files else ("file",)  # keys of messages that are not read: there may be many files
    if after is None or after.latest is not None:
        # The messages of the thread at `after` are read again: others may have the same date.
        below = math.nextafter(after.latest or 0.0, math.inf) if after is not None else sys.float_info.max
        while block := app.store.key_values_below("date", below, without=others, limit=BLOCK):
            below = block[-1]
            ids = {str(thread) for _, thread in app.store.related(Message, "date", block, "thread_id")}
            # A thread that goes on after this block was in one before.
            newest = (one for one in _places(app, sorted(ids)) if (one.latest or 0.0) <= block[0])
            yield from sorted((one for one in newest if one.latest is not None), key=lambda one: one.rank)
    behind = after.id if after is not None and after.latest is None else ""
    undated = sorted(map(str, app.store.key_values("thread_id", without=("date", *others))))
    for page in pages((id for id in undated if id > behind), BLOCK):
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
        if len(states) < size:
            return


def _matching(app: App, words: str, source: str | None) -> tuple[list[ThreadPosition], bool]:
    from onward.pipeline.search import Query, search

    found = search(app, Query(words, source=source), limit=MAX_MATCHES, vectors=False)
    threads = sorted({hit.message.thread_id for hit in found.hits})
    return _places(app, threads), found.total > MAX_MATCHES


def read_summaries(app: App, source: str | None, *, files: bool) -> Iterator[tuple[Summary, float | None]]:
    """Yield summaries, those of files and web pages only with `files`, with the date of the newest message."""
    for ids in _id_pages(app, Summary, source, size=500):
        left_out = set() if files else _files(app, ids)
        kept = [id for id in ids if id not in left_out]
        latest = {place.id: place.latest for place in _places(app, kept)}
        for summary in app.store.get_many(Summary, kept):
            yield summary, latest[summary.id]


def summary_facts(one: Summary, latest: float | None) -> dict[str, object]:
    return one.model_dump(mode="json") | {"latest_message": iso(latest)}


def first_lines(markdown: str) -> str:
    """Return the first lines of a summary, without its markup."""
    return one_line(" ".join(_MARKUP.sub(r"\1", markdown.partition("\n#")[0]).split()), FIRST_LINES)
