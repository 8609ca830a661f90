"""Renders pages from templates; every value is escaped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, partial
from importlib import resources
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from onward.console.sessions import SESSION_SECONDS, Sessions, cookie_name, cookie_of
from onward.ops.text.format import Sentence, counted, duration, harmless, number, one_line, size

_WORD = re.compile(r"[a-z]+(?:[ ,]|$)")
_THOUSANDS = re.compile(r"(?<=\d) (?=\d{3}\b)")


class MenuEntry(NamedTuple):
    """A page in the menu, and the key that opens it after `g`."""

    path: str
    title: str
    key: str


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


# -- paths of pages


def with_query(path: str, **given: Any) -> str:
    """Return a path with the given query parameters that are not empty."""
    query = urlencode({name: value for name, value in given.items() if value})
    return f"{path}?{query}" if query else path


def document_path(collection: str, id: str) -> str:
    # One or two dots as a part of a path mean the folder or its parent, however they are encoded.
    last = f"?id={id}" if id in (".", "..") else quote(id, safe="")
    return f"/documents/{quote(collection, safe='')}/{last}"


def queue_path(queue: str, **filters: str | None) -> str:
    return with_query(f"/queues/{quote(queue, safe='')}", **filters)


def letter_path(row: int) -> str:
    return f"/letters/{row}"


def group_path(fingerprint: str) -> str:
    return f"/failures/{quote(fingerprint, safe='')}"


def batch_path(id: str) -> str:
    return f"/batches/{quote(id, safe='')}"


# -- filters


def _time(at: float | str | None, mark: str = "", shown: str = "%Y-%m-%d %H:%M:%S") -> Markup:
    """Return a point in time as an element that the page shows in the reader's time zone."""
    if at is None or at == "":
        return Markup("")
    try:
        when = datetime.fromisoformat(at) if isinstance(at, str) else datetime.fromtimestamp(at, UTC)
    except (OverflowError, OSError, ValueError):
        return escape(str(at))
    when = when.astimezone(UTC)
    return Markup('<time datetime="{}"{}>{} UTC</time>').format(
        when.isoformat(timespec="seconds"), mark, when.strftime(shown)
    )


_ago = partial(_time, mark=" data-ago")
_clock = partial(_time, mark=" data-clock", shown="%Y-%m-%d %H:%M")  # of today, the page shows the hour and minute


def _sentence(text: str) -> str:
    """Return text that begins with a capital letter, unless its first word is a name such as `onward.toml`."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def _sentence_html(sentence: Sentence) -> Markup:
    """Return a sentence with its points in time as elements that the page shows in the reader's time zone."""
    parts = []
    for place, part in enumerate(sentence):
        if isinstance(part, str):
            text = harmless(part).replace("\n", " ")
            parts.append(escape(text if place else text[:1].upper() + text[1:]))
        else:
            parts.append(_ago(part.at) if part.relative else _clock(part.at))
    return Markup("").join(parts)


@cache
def _asset(name: str) -> str:
    """Return the URL of a static file, which changes with its content, so that browsers may cache it."""
    content = resources.files("onward.console").joinpath("static", name).read_bytes()
    return f"/static/{name}?{hashlib.sha256(content).hexdigest()[:12]}"


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
        "sentence": _sentence,
        "sentence_html": _sentence_html,
        "size": size,
        "time": _time,
        # The numbers of a text are not broken at the end of a line.
        "whole_numbers": partial(_THOUSANDS.sub, "\N{NO-BREAK SPACE}"),
    }
    paths = {"document_path": document_path, "letter_path": letter_path, "batch_path": batch_path}
    environment.globals |= {"asset": _asset, "menu": MENU, **paths}
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
    # The result of the action that led back to this page; the URL has only its id.
    operation = request.app.state.operations.get(request.query_params.get("said", ""))
    shared = {
        "path": request.url.path,
        "form_token": sessions.form_token(cookie) if cookie else "",
        "logged_in": sessions.needs_token,
        "said": operation.text if operation else "",
    }
    response = HTMLResponse(fragment(template, **shared | values), status, dict(headers or {}))
    if fresh:
        set_session(response, request, fresh)
    return response


def set_session(response: Response, request: Request, cookie: str) -> None:
    """Set the session cookie; no script can read it, and no other site can send it."""
    age, secure = int(SESSION_SECONDS), request.url.scheme == "https"
    response.set_cookie(cookie_name(request), cookie, age, httponly=True, samesite="strict", secure=secure)
