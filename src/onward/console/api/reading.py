"""Searching, and the tasks that ingest."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Query

from onward.app import App
from onward.console.api import models
from onward.console.api.describing import problems
from onward.console.api.documents import After, FromSource, Limit
from onward.console.api.finding import find_source
from onward.console.asking import Onward
from onward.facts.finding import NotFound
from onward.facts.searching import search_facts
from onward.facts.wording import iso, one_line, printable, source_name

router = APIRouter(prefix="/v3")

Date = Annotated[datetime | None, Query(description="A date or time in ISO 8601; UTC, unless it says otherwise.")]


@router.get(
    "/search",
    tags=["Search"],
    summary="Find messages",
    response_model=models.Found,
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


# -- tasks


@router.get(
    "/tasks", tags=["Tasks"], summary="List tasks", response_model=models.Tasks, responses=problems(404, 422)
)
def list_tasks(app: Onward, after: After = "", limit: Limit = 50, source: FromSource = None) -> dict[str, Any]:
    """Every ingestion of every source, in an order that never changes; go on while `next` is given."""
    if "\0" in after:
        return {"tasks": [], "next": None}
    states = app.store.states("tasks", source=find_source(app, source), after=printable(after), limit=limit + 1)
    page = states[:limit]
    bodies = {id: json.loads(text) for id, _, text in app.store.read_bodies("tasks", [one.id for one in page])}
    tasks = [_task(app, bodies[one.id]) for one in page if "source_id" in bodies.get(one.id, {})]
    return {"tasks": tasks, "next": page[-1].id if len(states) > limit else None}


@router.get(
    "/tasks/{id}",
    tags=["Tasks"],
    summary="See how a task goes",
    response_model=models.TaskProgress,
    responses=problems(404),
)
def get_task(app: Onward, id: str) -> dict[str, Any]:
    """How far it has come, and what became of every item and message."""
    from onward.facts.accounting import account
    from onward.pipeline.sources import source_status

    found = app.store.read_bodies("tasks", [printable(id)]) if "\0" not in id else []
    body = json.loads(found[0][2]) if found else {}
    if "source_id" not in body:
        raise NotFound(f"there is no task {one_line(id, 60)!r}; GET /v3/tasks lists them")
    source = body["source"]
    told, standing = account(app, source, {}).as_dict(), source_status(app, source)
    total = sum(sum(counts.values()) for counts in standing.documents.values())
    return _task(app, body) | {
        "documents": standing.documents,
        "pending": standing.pending,
        "failed": standing.failed,
        "set_aside": standing.set_aside,
        "done": total - standing.pending - standing.set_aside,
        "total": total,
        **{name: told[name] for name in ("items", "messages", "waiting")},
        "failures": told["failures"],
    }


def _task(app: App, body: dict[str, Any]) -> dict[str, Any]:
    from onward.pipeline.documents import Archive
    from onward.pipeline.sources import source_status

    request = app.get(Archive, body["source_id"])
    return {
        "id": body["id"],
        "document_id": body["source_id"],
        "source": source_name(body["source"]),
        "submission": body["submission"],
        "current": request is not None and request.submission == body["submission"],
        "submitted_at": iso(body["submitted_at"]),
        "status": source_status(app, body["source"]).status,
    }
