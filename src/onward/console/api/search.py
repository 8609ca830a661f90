"""Search over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from onward.console.api import schemas
from onward.console.api.documents import FromSource, Limit, find_source
from onward.console.api.openapi import reads
from onward.console.request_context import Onward
from onward.ops.queries.threads import search_facts
from onward.ops.text.format import printable

router = APIRouter(prefix="/v3")

Words = Query(
    min_length=1,
    max_length=1_000,
    json_schema_extra={"pattern": r"\w"},
    description='Words; `"words in quotes"` must stand together, `-words` must not be there.',
)
Author = Query(min_length=1, max_length=200, description="Part of a name or address.")
Date = Annotated[datetime | None, Query(description="A date or time in ISO 8601; UTC, unless it says otherwise.")]


@reads(router, "/search", "Find messages", schemas.SearchResults, 404, 422, tag="Search")
def search(
    app: Onward,
    q: Annotated[str, Words],
    source: FromSource = None,
    author: Annotated[str | None, Author] = None,
    since: Date = None,
    until: Date = None,
    limit: Limit = 10,
    page: Annotated[int, Query(ge=1, le=1_000)] = 1,
) -> dict[str, Any]:
    """Messages, best first: any of the words counts, all of them count more."""
    from onward.pipeline.search import Query as Asked
    from onward.pipeline.search import search as find

    words, author_text = (printable(text or "").replace("\0", " ") for text in (q, author))
    first, last = (
        None if date is None else (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
        for date in (since, until)
    )
    query = Asked(words, source=find_source(app, source), author=author_text or None, since=first, until=last)
    return search_facts(query, find(app, query, limit=limit, offset=(page - 1) * limit), page)
