"""Search: messages by words and meaning, as JSON or CSV; messages similar to another; completions."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request
from pydantic import AfterValidator, Field
from starlette.responses import Response

from onward.console.api import search_schemas
from onward.console.api.documents import Author, Date, FromSource, find_source
from onward.console.api.openapi import problems, reads
from onward.console.request_context import Onward
from onward.console.time_zone import viewer_zone
from onward.ops.bad_input import NotFound
from onward.ops.queries.search_results import hit_facts, search_csv, search_facts
from onward.ops.text.format import one_line, printable
from onward.pipeline.documents import Message
from onward.pipeline.query_language import KINDS

router = APIRouter(prefix="/v3", tags=["Search"])

CSV = "text/csv"
MAX_RESULTS = 1_000
CSV_HEADERS = {"content-disposition": 'attachment; filename="search.csv"'}

Words = Query(
    min_length=1,
    max_length=1_000,
    json_schema_extra={"pattern": r"\w"},
    description='Words, `"a phrase"`, `-word`, `prefix*`, and `from:`, `to:`, `subject:`, `path:`, `source:`, '
    "`kind:`, `lang:`, `has:attachment`, `before:`, `after:`.",
)


def _known_kind(given: str) -> str:
    if given not in KINDS:
        raise ValueError(f"give one of {', '.join(sorted(KINDS))}")
    return given


KindOf = Annotated[
    Annotated[str, AfterValidator(_known_kind), Field(json_schema_extra={"enum": sorted(KINDS)})] | None,
    Query(description="The kind of message; `mail` has all kinds of mail."),
]
Language = Annotated[
    str | None, Query(min_length=1, max_length=40, description="A language such as `de`, or `python` for code.")
]
Year = Annotated[int | None, Query(ge=1, le=9_998, description="In UTC.")]
Results = Annotated[int, Query(ge=1, le=MAX_RESULTS, description="How many at most.")]
Format = Annotated[
    Literal["json", "csv"] | None, Query(description="Instead of the header `Accept`; JSON, if neither is given.")
]
Facts = dict[str, Any]
_AS_TABLE: Facts = {"content": {CSV: {"schema": {"type": "string"}}}}


@router.get(
    "/search",
    summary="Find messages",
    response_model=search_schemas.SearchResults,
    responses={200: _AS_TABLE, **problems(400, 404, 422)},
)
def search(
    request: Request,
    app: Onward,
    q: Annotated[str, Words],
    source: FromSource = None,
    author: Annotated[str | None, Author] = None,
    since: Date = None,
    until: Date = None,
    kind: KindOf = None,
    language: Language = None,
    year: Year = None,
    sort: Annotated[Literal["relevance", "date"], Query(description="`date`: the newest first.")] = "relevance",
    facets: Annotated[bool, Query(description="Count sources, authors, years, kinds and languages.")] = False,
    explain: Annotated[bool, Query(description="Give the reasons of each result.")] = False,
    limit: Results = 10,
    page: Annotated[int, Query(ge=1, le=1_000)] = 1,
    format: Format = None,
) -> Any:
    """Messages that match well, best first: any of the words counts, all of them count more.

    CSV has one line for each result. Text that a spreadsheet would run as a formula begins with an apostrophe.
    """
    from onward.pipeline.search import Query as Asked
    from onward.pipeline.search import search as find

    asked = Asked(
        _text(q),
        source=find_source(app, source),
        author=_text(author) or None,
        since=_timestamp(since),
        until=_timestamp(until),
        kind=_text(kind) or None,
        language=_text(language) or None,
        year=year,
        sort=sort,
        # A browser that downloads what a page has found means the dates of that page.
        zone=viewer_zone().info if viewer_zone().told else None,
    )
    found = find(app, asked, limit=limit, offset=(page - 1) * limit, facets=facets, explain=explain)
    facts = search_facts(asked, found, page)
    return _table(facts["results"]) if _wants_csv(request, format) else facts


@router.get(
    "/similar/{id:path}",
    summary="Find similar messages",
    response_model=search_schemas.SimilarMessages,
    responses={200: _AS_TABLE, **problems(404, 422)},
)
def similar(request: Request, app: Onward, id: str, limit: Results = 10, format: Format = None) -> Any:
    """Messages about the same as this one, the most similar first."""
    from onward.pipeline.search import similar as find

    wanted = _text(id)
    if app.get(Message, wanted) is None:
        raise NotFound(f"there is no message {one_line(wanted, 100)!r}; GET /v3/search finds them")
    results = hit_facts(find(app, wanted, limit=limit).hits)
    return _table(results) if _wants_csv(request, format) else {"id": wanted, "results": results}


@reads(router, "/suggestions", "Complete a query", search_schemas.Suggestions, 422)
def suggestions(
    app: Onward,
    q: Annotated[str, Query(min_length=1, max_length=1_000, description="What was typed so far.")],
    limit: Annotated[int, Query(ge=1, le=20, description="How many at most.")] = 8,
) -> Facts:
    """The query with its last word completed, from the words of the messages, the most frequent first."""
    from onward.pipeline.search import suggest

    return {"query": _text(q), "suggestions": suggest(app, _text(q), limit=limit)}


def _text(given: str | None) -> str:
    return printable(given or "").replace("\0", " ")


def _timestamp(date: datetime | None) -> float | None:
    return None if date is None else (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()


def _wants_csv(request: Request, format: str | None) -> bool:
    accepted = request.headers.get("accept", "")
    return format == "csv" or (format is None and CSV in accepted and "json" not in accepted)


def _table(results: list[Facts]) -> Response:
    return Response(search_csv(results), media_type=CSV, headers=CSV_HEADERS)
