"""The HTTP API, described at `/openapi.json`."""

from __future__ import annotations

from functools import partial

from fastapi import APIRouter, FastAPI

from onward.console.allowing import remember
from onward.console.api import acting, documents, errors, monitoring, operating, reading, submissions
from onward.console.api.describing import describe

ROUTERS: tuple[APIRouter, ...] = (
    submissions.router,
    documents.router,
    reading.router,
    operating.router,
    acting.router,
    errors.router,
    monitoring.router,
)


def add_routes(web: FastAPI) -> None:
    """Add all calls, and what they keep while the server runs."""
    web.state.errors = errors.Errors()
    web.state.monitoring = monitoring.Monitoring(web.state.onward)
    for router in ROUTERS:
        web.include_router(router)
    remember(web, ROUTERS)
    web.openapi = partial(describe, web)  # type: ignore[method-assign]
