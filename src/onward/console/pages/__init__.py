"""The pages of the console, each made on the server from one look at the store."""

from __future__ import annotations

from collections.abc import Callable

from fastapi import FastAPI

from onward.console.allowed_methods import register_routes
from onward.console.api import documents as api_documents
from onward.console.pages import (
    actions,
    batches,
    confirm,
    docs,
    document,
    documents,
    failures,
    ingest,
    live,
    login,
    overview,
    queues,
    search,
    settings,
    tasks,
    threads,
    workers,
)

ROUTERS = (
    login.router,
    overview.router,
    confirm.router,
    live.router,
    failures.router,
    queues.router,
    batches.router,
    workers.router,
    actions.router,
    documents.router,
    document.router,
    tasks.router,
    ingest.router,
    docs.router,
    search.router,
    threads.router,
    settings.router,
)

PARTS: dict[str, Callable[[FastAPI, str], str]] = {
    "overview": overview.part,
    "operation": confirm.part,
    "document": document.part,
    api_documents.PART: api_documents.status_part,
    "tasks": tasks.part,
    "failures": failures.list_part,
    "failure": failures.group_part,
    "workers": workers.part,
    "operations": actions.operations_part,
}
"""What can be watched, by the first word of its name; the rest of the name says which."""


def add_routes(web: FastAPI) -> None:
    """Add all pages; they are no part of the API's description."""
    for router in ROUTERS:
        web.include_router(router, include_in_schema=False)
    register_routes(web, ROUTERS)


def render_part(web: FastAPI, name: str) -> str:
    """Render the live part of a page."""
    kind, _, which = name.partition("/")
    return PARTS[kind](web, which)
