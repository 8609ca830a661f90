"""The console and the API as one web app."""

from __future__ import annotations

import time
from importlib import resources

from fastapi import FastAPI
from starlette.staticfiles import StaticFiles

from onward.app import App
from onward.console import api, pages
from onward.console.live import Live
from onward.console.middleware import AccessMiddleware
from onward.console.operations import Operations
from onward.console.pages.overview import OVERDUE_SECONDS, Throughput, TimedCache
from onward.console.problems import add_handlers
from onward.console.sessions import Sessions
from onward.ops.queries.status import Overdue

LOCAL = ("localhost", "127.0.0.1", "::1")


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
    # Rendering costs the thread's processor time; with a remote store the wall time, which includes its work.
    web.state.live = Live(
        lambda name: pages.render_part(web, name),
        lambda: time.monotonic() if app.store.remote else time.thread_time(),
    )
    add_handlers(web)
    api.add_routes(web)
    pages.add_routes(web)
    web.mount("/static", StaticFiles(directory=str(resources.files("onward.console") / "static")))
    return AccessMiddleware(web, app.settings, web.state.sessions, hosts)
