"""The console and the API as one web app."""

from __future__ import annotations

import time
from importlib import resources

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from onward.app import App
from onward.console import api, pages
from onward.console.live import Live
from onward.console.middleware import AccessMiddleware, Limits
from onward.console.operations import Operations
from onward.console.problems import add_handlers
from onward.console.sessions import Sessions
from onward.console.throughput import Throughput
from onward.console.timed_cache import TimedCache
from onward.ops.queries.status import Overdue

LOCAL = ("localhost", "127.0.0.1", "::1")
OVERDUE_SECONDS = 10.0
"""The number of overdue documents is counted again after this time."""


def build(app: App, *, hosts: frozenset[str] = frozenset(LOCAL), token: str | None = None) -> AccessMiddleware:
    """Build the web app for a store; `hosts` are the host names that it accepts."""
    web = FastAPI(
        title="Onward",
        version="3",
        description="Submit documents, see what becomes of them, and put right what went wrong.",
        docs_url=None,
        redoc_url=None,
        openapi_url="/openapi.json",
    )
    web.state.onward = app
    web.state.sessions = Sessions(token)
    web.state.operations = Operations()
    web.state.throughput = Throughput()
    web.state.overdue = TimedCache[Overdue](OVERDUE_SECONDS)
    web.state.live = Live(lambda name: pages.render_part(web, name), lambda: _spent(app))
    add_handlers(web)
    api.add_routes(web)
    pages.add_routes(web)
    web.mount("/static", StaticFiles(directory=str(resources.files("onward.console") / "static")))
    settings = app.settings
    limits = Limits(
        upload_bytes=settings.serve_max_upload_bytes, requests_per_second=settings.serve_requests_per_second
    )
    return AccessMiddleware(web, sessions=web.state.sessions, hosts=hosts, limits=limits)


def _spent(app: App) -> float:
    """Return the processor time of this thread; with a remote store, the wall time, which includes its work."""
    return time.monotonic() if app.store.remote else time.thread_time()
