"""Results of a search as facts for programs, and as rows of a table; thousands of them in parts."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from onward.model.search_query import MARK_END, MARK_START
from onward.ops.queries.attachments import attached_facts
from onward.ops.text.format import iso, one_line
from onward.pipeline.query_language import describe
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward.app import App
    from onward.pipeline.search import Hit, Query, Results

PART = 250  # hits that are in memory at once, with their messages
CSV_COLUMNS = (
    *("rank", "id", "thread_id", "date", "author", "subject", "source", "path", "kind", "language", "score"),
    "excerpt",
)
_FORMULA_STARTS = ("=", "+", "-", "@")


def result_pages(
    app: App, query: Query, *, limit: int, offset: int = 0, facets: bool = False, explain: bool = False
) -> Iterator[Results]:
    """Yield the results of a search in parts, so that thousands of them need little memory; the first has facets.

    A message is in one part only, also if others are added meanwhile.
    """
    from onward.pipeline.search import search

    seen: set[str] = set()
    for start in range(offset, offset + limit, PART):
        size = min(PART, offset + limit - start)
        found = search(app, query, limit=size, offset=start, facets=facets and not seen, explain=explain)
        new = [hit for hit in found.hits if hit.message.id not in seen]
        seen |= {hit.message.id for hit in new}
        if new or start == offset:
            yield replace(found, hits=new)
        if len(found.hits) < size:
            return


def search_facts(query: Query, found: Results, page: int) -> dict[str, Any]:
    return {
        "query": query.text,
        "understood": describe(found.parsed) if found.parsed else "",
        "sort": query.sort,
        "total": found.total,
        "every": found.every,
        "note": redact(found.note),
        "did_you_mean": found.did_you_mean,
        "page": page,
        "facets": {name: _values(name, values) for name, values in found.facets.items()},
        "results": hit_facts(found.hits, first=found.offset + 1),
    }


def _values(name: str, values: Sequence[tuple[str, int]]) -> list[dict[str, Any]]:
    return [{"value": redact(value) if name == "source" else value, "count": count} for value, count in values]


def hit_facts(hits: Sequence[Hit], *, first: int = 1) -> list[dict[str, Any]]:
    return [
        {
            "rank": rank,
            "id": hit.message.id,
            "thread_id": hit.message.thread_id,
            "subject": hit.message.subject,
            "author": hit.message.author,
            "date": iso(hit.message.date),
            "source": redact(hit.message.source),
            "path": hit.path,
            "kind": hit.message.kind,
            "language": hit.message.language,
            "attached_to": attached_facts(hit.message),
            "score": round(hit.score, 6),
            "text_score": round(hit.text_score, 6),
            "similarity": round(hit.similarity, 6),
            "excerpt": hit.excerpt.replace(MARK_START, "").replace(MARK_END, ""),
            "reasons": [{"word": reason.word, "score": reason.score} for reason in hit.reasons],
        }
        for rank, hit in enumerate(hits, first)
    ]


def search_csv(facts: Sequence[dict[str, Any]], *, header: bool = True, line_end: str = "\r\n") -> str:
    """Return hits as a table of comma-separated values."""
    out = io.StringIO(newline="")
    writer = csv.DictWriter(out, CSV_COLUMNS, extrasaction="ignore", lineterminator=line_end)
    if header:
        writer.writeheader()
    writer.writerows({name: _cell(value) for name, value in one.items()} for one in facts)
    return out.getvalue()


def _cell(value: object) -> object:
    """Return the value of a cell: spreadsheets run text that begins like a formula, so it gets an apostrophe."""
    if not isinstance(value, str):
        return value
    line = one_line(value)
    return f"'{line}" if line.startswith(_FORMULA_STARTS) else line
