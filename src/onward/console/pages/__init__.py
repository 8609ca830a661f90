"""The pages of the console, each made on the server from one look at the store."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.console.api import documents as api_documents
from onward.console.live import event_stream
from onward.console.pages import (
    actions,
    ask,
    docs,
    documents,
    failures,
    login,
    overview,
    queues,
    saved_filters,
    search,
    services,
    settings,
    simulate,
    sources,
    tasks,
    threads,
)
from onward.console.problems import Problem
from onward.console.time_zone import shown_in

router = APIRouter(include_in_schema=False)

_MODULES = (
    login,
    overview,
    actions,
    failures,
    queues,
    documents,
    saved_filters,
    tasks,
    docs,
    search,
    ask,
    threads,
    simulate,
    settings,
    services,
    sources,
)
ROUTERS = (router, *(module.router for module in _MODULES))

# The functions that render live parts of pages, by the first word of their name; the rest says which.
PARTS: dict[str, Callable[[FastAPI, str], str]] = {
    "overview": overview.part,
    "operation": actions.operation_part,
    "document": documents.part,
    api_documents.PART: api_documents.status_part,
    "tasks": tasks.part,
    "sources": sources.part,
    "failures": failures.list_part,
    "failure": failures.group_part,
    "workers": overview.workers_part,
    "operations": actions.operations_part,
    "recent-operations": actions.recent_part,
}


@router.get("/live/{name:path}")
async def live(request: Request, name: str) -> Response:
    """Send the part of a page as a server-sent event, whenever it has changed."""
    name += request.query_params.get("id", "")
    if name.partition("/")[0] not in PARTS:
        raise Problem(404, "Not found", "There is no such part of a page.")
    return event_stream(request, name, ("Too many open live pages", "Close a page, or come back later."))


def render_part(web: FastAPI, name: str) -> str:
    """Render a live part; its name begins with the zone of its times and a line end."""
    zone, _, part = name.partition("\n")
    kind, _, which = part.partition("/")
    with shown_in(zone):
        return PARTS[kind](web, which)
