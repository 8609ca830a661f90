"""Search results and summaries of threads."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING

from onward.ops.text.format import iso, one_line
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App
    from onward.pipeline.documents import Summary
    from onward.pipeline.search import Query, Results

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
