"""Search over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from onward.console.api import schemas
from onward.console.api.documents import FromSource, Limit
from onward.console.api.lookup import find_source
from onward.console.api.openapi import problems
from onward.console.request_context import Onward
from onward.ops.queries.threads import search_facts
from onward.ops.text.format import printable

router = APIRouter(prefix="/v3")

Date = Annotated[datetime | None, Query(description="A date or time in ISO 8601; UTC, unless it says otherwise.")]


@router.get(
    "/search",
    tags=["Search"],
    summary="Find messages",
    response_model=schemas.SearchResults,
    responses=problems(404, 422),
)
def search(
    app: Onward,
    q: Annotated[
        str,
        Query(
            min_length=1,
            max_length=1_000,
            json_schema_extra={"pattern": r"\w"},
            description='Words; `"words in quotes"` must stand together, `-words` must not be there.',
        ),
    ],
    source: FromSource = None,
    author: Annotated[
        str | None, Query(min_length=1, max_length=200, description="Part of a name or address.")
    ] = None,
    since: Date = None,
    until: Date = None,
    limit: Limit = 10,
    page: Annotated[int, Query(ge=1, le=1_000)] = 1,
) -> dict[str, Any]:
    """Messages, best first: any of the words counts, all of them count more."""
    from onward.pipeline.search import Query as Asked
    from onward.pipeline.search import search as find

    query = Asked(
        _text(q),
        source=find_source(app, source),
        author=_text(author) if author else None,
        since=_at(since),
        until=_at(until),
    )
    return search_facts(query, find(app, query, limit=limit, offset=(page - 1) * limit), page)


def _text(given: str) -> str:
    return printable(given).replace("\0", " ")


def _at(date: datetime | None) -> float | None:
    if date is None:
        return None
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
