"""Renders pages from templates; every value is escaped."""

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

from onward.console.sessions import SESSION_SECONDS, Sessions, cookie_name, cookie_of
from onward.ops.text.format import Sentence, counted, duration, harmless, number, one_line, size

_WORD = re.compile(r"[a-z]+(?:[ ,]|$)")
_THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}\b)")


class MenuEntry(NamedTuple):
    """A page in the menu."""

    path: str
    title: str
    key: str
    """The key that opens it after `g`."""


MENU = (
    MenuEntry("/", "Overview", "o"),
    MenuEntry("/documents", "Documents", "d"),
    MenuEntry("/failures", "Failures", "f"),
    MenuEntry("/queues", "Failed queues", "q"),
    MenuEntry("/batches", "Failed batches", "b"),
    MenuEntry("/tasks", "Tasks", "t"),
    MenuEntry("/search", "Search", "s"),
    MenuEntry("/threads", "Threads", "r"),
    MenuEntry("/workers", "Workers", "w"),
    MenuEntry("/settings", "Settings", "e"),
)


def _time(at: float | str | None, *, ago: bool = False) -> Markup:
    """Return a point in time as an element that the page shows in the reader's time zone."""
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
    """Return a point in time inside a sentence: of today, the page shows the hour and minute."""
    when = datetime.fromtimestamp(at, UTC)
    return Markup('<time datetime="{}" data-clock>{} UTC</time>').format(
        when.isoformat(timespec="seconds"), when.strftime("%Y-%m-%d %H:%M")
    )


def _sentence(text: str) -> str:
    """Return text that begins with a capital letter, unless its first word is a name such as `onward.toml`."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def _whole_numbers(text: str) -> str:
    """Return text whose numbers are not broken at the end of a line."""
    return _THOUSANDS.sub("\N{NO-BREAK SPACE}", text)


def _sentence_html(sentence: Sentence) -> Markup:
    """Return a sentence with its points in time as elements that the page shows in the reader's time zone."""
    parts = []
    for place, part in enumerate(sentence):
        if isinstance(part, str):
            text = harmless(part).replace("\n", " ")
            parts.append(escape(text if place else text[:1].upper() + text[1:]))
        else:
            parts.append(_time(part.at, ago=True) if part.relative else _clock(part.at))
    return Markup("").join(parts)


def _ago(at: float | str | None) -> Markup:
    return _time(at, ago=True)


def document_path(collection: str, id: str) -> str:
    """Return the path of a document's page."""
    # One or two dots as a part of a path mean the folder or its parent, however they are encoded.
    last = f"?id={id}" if id in (".", "..") else quote(id, safe="")
    return f"/documents/{quote(collection, safe='')}/{last}"


def _asset(name: str) -> str:
    """Return the URL of a static file, which changes with its content, so that browsers may cache it."""
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
        "sentence_html": _sentence_html,
        "size": size,
        "time": _time,
        "whole_numbers": _whole_numbers,
    }
    environment.globals |= {"asset": _asset, "document_path": document_path, "menu": MENU}
    return environment


def fragment(template: str, **values: Any) -> str:
    """Render a part of a page."""
    return _environment().get_template(template).render(values)


def page(
    request: Request, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Render a whole page; its forms can be sent by this browser only."""
    sessions: Sessions = request.app.state.sessions
    cookie = cookie_of(request)
    fresh = "" if sessions.is_valid(cookie) or sessions.needs_token else sessions.begin()
    cookie = fresh or cookie
    shared = {
        "path": request.url.path,
        "form_token": sessions.form_token(cookie) if cookie else "",
        "logged_in": sessions.needs_token,
        "said": _result_text(request),
    }
    body = _environment().get_template(template).render(shared | values)
    response = HTMLResponse(body, status_code=status, headers=dict(headers or {}))
    if fresh:
        set_session(response, request, fresh)
    return response


def _result_text(request: Request) -> str:
    """Return the result of the action that led back to this page; the URL has only its id."""
    operation = request.app.state.operations.get(request.query_params.get("said", ""))
    return operation.text if operation else ""


def set_session(response: HTMLResponse | Any, request: Request, cookie: str) -> None:
    """Set the session cookie; no script can read it, and no other site can send it."""
    secure = request.url.scheme == "https"
    name = cookie_name(request)
    response.set_cookie(
        name, cookie, max_age=int(SESSION_SECONDS), httponly=True, samesite="strict", secure=secure
    )
