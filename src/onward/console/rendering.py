"""Pages from templates: everything that is put into one is escaped."""

from __future__ import annotations

import hashlib
import re
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

from onward.console.sessions import LASTS, Sessions, cookie_name, cookie_of
from onward.facts.wording import counted, duration, harmless, number, one_line, size

_WORD = re.compile(r"[a-z]+ ")
_THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}\b)")


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


def _clock(at: float) -> Markup:
    """A point in time within a sentence: of today, the hour and minute will do."""
    when = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}" data-clock>{} UTC</time>').format(
        when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d %H:%M")
    )


def _sentence(text: str) -> str:
    """What an error says, begun as a sentence is, unless it begins with a name that is written so."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def _whole_numbers(text: str) -> str:
    """A text whose numbers are not torn apart at the end of a line."""
    return _THOUSANDS.sub("\N{NO-BREAK SPACE}", text)


def _ago(at: float | str | None) -> Markup:
    return _time(at, ago=True)


def document_path(collection: str, id: str) -> str:
    """Where a document's page is."""
    # As a part of a path, one or two dots mean the folder or the one above, however they are written.
    last = f"?id={id}" if id in (".", "..") else quote(id, safe="")
    return f"/documents/{quote(collection, safe='')}/{last}"


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
        "clock": _clock,
        "counted": counted,
        "duration": duration,
        "harmless": harmless,
        "number": number,
        "one_line": one_line,
        "sentence": _sentence,
        "size": size,
        "time": _time,
        "whole_numbers": _whole_numbers,
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
    cookie = cookie_of(request)
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
    name = cookie_name(request)
    response.set_cookie(name, cookie, max_age=int(LASTS), httponly=True, samesite="strict", secure=secure)
