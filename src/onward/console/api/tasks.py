"""Tasks over HTTP: each ingestion of a source, and its progress."""

from __future__ import annotations

import json
from typing import Any

from fastapi import APIRouter

from onward.app import App
from onward.console.api import schemas
from onward.console.api.documents import After, FromSource, Limit
from onward.console.api.lookup import find_source
from onward.console.api.openapi import problems
from onward.console.request_context import Onward
from onward.ops.bad_input import NotFound
from onward.ops.text.format import iso, one_line, printable, source_name

router = APIRouter(prefix="/v3")


@router.get(
    "/tasks", tags=["Tasks"], summary="List tasks", response_model=schemas.Tasks, responses=problems(404, 422)
)
def list_tasks(app: Onward, after: After = "", limit: Limit = 50, source: FromSource = None) -> dict[str, Any]:
    """List every ingestion of every source, in an order that never changes; go on while `next` is given."""
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
    response_model=schemas.TaskProgress,
    responses=problems(404),
)
def get_task(app: Onward, id: str) -> dict[str, Any]:
    """Get its progress, and the counts of items and messages by result."""
    from onward.ops.queries.ingestion_report import read_ingestion_report
    from onward.pipeline.sources import source_status

    found = app.store.read_bodies("tasks", [printable(id)]) if "\0" not in id else []
    body = json.loads(found[0][2]) if found else {}
    if "source_id" not in body:
        raise NotFound(f"there is no task {one_line(id, 60)!r}; GET /v3/tasks lists them")
    source = body["source"]
    report, status = read_ingestion_report(app, source, {}).as_dict(), source_status(app, source)
    total = sum(sum(counts.values()) for counts in status.documents.values())
    return _task(app, body) | {
        "documents": status.documents,
        "pending": status.pending,
        "failed": status.failed,
        "set_aside": status.set_aside,
        "done": total - status.pending - status.set_aside,
        "total": total,
        **{name: report[name] for name in ("items", "messages", "without_text", "passed_over", "ignored")},
        "waiting": report["waiting"],
        "failures": report["failures"],
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
