"""Pages from templates: everything that is put into one is escaped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import quote

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse

from onward.console.sessions import COOKIE, LASTS, Sessions
from onward.facts.wording import counted, duration, harmless, number, one_line, size


class Entry(NamedTuple):
    """A page in the menu."""

    path: str
    title: str
    key: str
    """What is typed behind `g` to go there."""


MENU = (
    Entry("/", "Overview", "o"),
    Entry("/documents", "Documents", "d"),
    Entry("/failures", "Failures", "f"),
    Entry("/queues", "Failed queues", "q"),
    Entry("/batches", "Failed batches", "b"),
    Entry("/tasks", "Tasks", "t"),
    Entry("/search", "Search", "s"),
    Entry("/threads", "Threads", "r"),
    Entry("/workers", "Workers", "w"),
    Entry("/settings", "Settings", "e"),
)


def _time(at: float | str | None, *, ago: bool = False) -> Markup:
    """A point in time, which the page shows in the reader's own zone."""
    if at is None or at == "":
        return Markup("")
    try:
        when = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return escape(str(at))
    when = when.astimezone(UTC)
    mark = Markup(" data-ago") if ago else Markup("")
    return Markup('<time datetime="{}"{}>{} UTC</time>').format(
        when.isoformat(timespec="seconds"), mark, when.strftime("%Y-%m-%d %H:%M:%S")
    )


def _ago(at: float | str | None) -> Markup:
    return _time(at, ago=True)


def document_path(collection: str, id: str) -> str:
    """Where a document's page is."""
    return f"/documents/{quote(collection, safe='')}/{quote(id, safe='')}"


def _asset(name: str) -> str:
    """A file's address, which changes with the file: it may be kept as long as it is the same."""
    return f"/static/{name}?{_digest(name)}"


@cache
def _digest(name: str) -> str:
    return hashlib.sha256(resources.files("onward.console").joinpath("static", name).read_bytes()).hexdigest()[:12]


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("onward.console"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "ago": _ago,
        "counted": counted,
        "duration": duration,
        "harmless": harmless,
        "number": number,
        "one_line": one_line,
        "size": size,
        "time": _time,
    }
    environment.globals |= {"asset": _asset, "document_path": document_path, "menu": MENU}
    return environment


def fragment(template: str, **values: Any) -> str:
    """Part of a page, as it is sent to everybody who watches it."""
    return _environment().get_template(template).render(values)


def page(
    request: Request, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """A whole page, with forms that only this browser can send."""
    sessions: Sessions = request.app.state.sessions
    cookie = request.cookies.get(COOKIE, "")
    fresh = "" if sessions.is_valid(cookie) or sessions.needs_token else sessions.begin()
    cookie = fresh or cookie
    shared = {
        "path": request.url.path,
        "form_token": sessions.form_token(cookie) if cookie else "",
        "logged_in": sessions.needs_token,
        "said": _said(request),
    }
    body = _environment().get_template(template).render(shared | values)
    response = HTMLResponse(body, status_code=status, headers=dict(headers or {}))
    if fresh:
        set_session(response, request, fresh)
    return response


def _said(request: Request) -> str:
    """What came of the change that led back to this page; only its number stands in the address."""
    operation = request.app.state.operations.get(request.query_params.get("said", ""))
    return operation.text if operation else ""


def set_session(response: HTMLResponse | Any, request: Request, cookie: str) -> None:
    """Give a browser its session; no script can read it, and no other site sends it."""
    secure = request.url.scheme == "https"
    response.set_cookie(COOKIE, cookie, max_age=int(LASTS), httponly=True, samesite="strict", secure=secure)
