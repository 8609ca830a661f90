"""The HTTP API, described at `/openapi.json`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, FastAPI

from onward.console.api import (
    answers,
    attachments,
    documents,
    error_reports,
    failure_decisions,
    history,
    monitoring,
    operator,
    search,
    sources,
    submissions,
    threads,
    uploads,
)
from onward.console.api.openapi import describe
from onward.console.problems import add_routers

ROUTERS: tuple[APIRouter, ...] = (
    *(submissions.router, uploads.router, documents.router, search.router, attachments.router, answers.router),
    *(threads.router, documents.tasks_router, sources.router, operator.router, history.router),
    failure_decisions.router,
    *(error_reports.router, monitoring.router),
)


def add_routes(web: FastAPI) -> None:
    """Add all calls, and what they keep while the server runs."""
    web.state.errors = error_reports.Errors()
    web.state.monitoring = monitoring.Monitoring(web.state.onward)
    add_routers(web, ROUTERS)
    web.openapi = partial(describe, web)  # type: ignore[method-assign]
