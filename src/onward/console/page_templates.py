"""Renders pages from templates; every value is escaped."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache, partial
from importlib import resources
from typing import Any
from urllib.parse import quote, urlencode

from fastapi import FastAPI
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from onward.app import App
from onward.console.sessions import SESSION_SECONDS, Sessions, cookie_name, cookie_of
from onward.console.text_language import lang_attribute
from onward.console.time_zone import local, viewer_zone
from onward.console.timed_cache import TimedCache
from onward.ledger.replica_reads import current_reads
from onward.ledger.store_errors import StoreError
from onward.model.operations import Operation
from onward.ops.queries.documents import content_documents
from onward.ops.queries.services import Outage, read_outages
from onward.ops.text.format import (
    Sentence,
    counted,
    duration,
    harmless,
    media_type,
    number,
    offset_text,
    one_line,
    size,
)
from onward.ops.text.outages import limit_text, needed_by, outage_sentence

MAX_RECENT = 3  # operations that every page shows
SECONDS = "%Y-%m-%d %H:%M:%S"
OUTAGE_SECONDS = 5.0  # the events that wait for a dependency are counted again after this time
_WORD = re.compile(r"[a-z]+(?:[ ,]|$)")


MENU = (  # each page with the key that opens it after `g`
    ("/", "Overview", "o"),
    ("/documents", "Documents", "d"),
    ("/failures", "Failures", "f"),
    ("/queues", "Failed queues", "q"),
    ("/batches", "Failed batches", "b"),
    ("/sources", "Sources", "u"),
    ("/tasks", "Tasks", "t"),
    ("/search", "Search", "s"),
    ("/ask", "Ask", "a"),
    ("/threads", "Threads", "r"),
    ("/workers", "Workers", "w"),
    ("/simulate", "Simulate", "i"),
    ("/settings", "Settings", "e"),
)


def with_query(path: str, **given: Any) -> str:
    """Return a path with the given query parameters that are not empty."""
    query = urlencode({name: value for name, value in given.items() if value})
    return f"{path}?{query}" if query else path


def document_path(collection: str, id: str) -> str:
    # One or two dots as a part of a path mean the folder or its parent, however they are encoded.
    last = f"?id={id}" if id in (".", "..") else quote(id, safe="")
    return f"/documents/{quote(collection, safe='')}/{last}"


def attachment_path(message: str, number: int) -> str:
    """Return the path where an attachment of a message is downloaded."""
    return f"/attachments/{quote(message, safe='')}/{number}"


def similar_path(message: str) -> str:
    """Return the path of the messages that are similar to a message."""
    return f"/similar/{quote(message, safe='')}"


def page_path(kind: str, id: object, **query: str | None) -> str:
    """Return the path of the page of a queue, dead letter, failure group or batch."""
    return with_query(f"/{kind}/{quote(str(id), safe='')}", **query)


def _time(at: float | str | None, mark: str = "", shown: str = SECONDS) -> Markup:
    """Return a point in time in the viewer's zone, as an element that has it in UTC, too."""
    if at is None or at == "":
        return Markup("")
    there = local(at)
    if there is None:
        return escape(str(at))
    return Markup('<time datetime="{}" title="{} {}"{}>{}</time>').format(
        there.astimezone(UTC).isoformat(timespec="seconds"),
        there.strftime(SECONDS),
        offset_text(there),
        mark,
        there.strftime(shown),
    )


def _clock(at: float) -> Markup:
    """Return a point in time inside a sentence: of today, the hour and minute."""
    there, today = local(at), datetime.now(viewer_zone().info).date()
    return _time(at, shown="%H:%M" if there and there.date() == today else "%Y-%m-%d %H:%M")


_ago = partial(_time, mark=" data-ago")  # a script shows how long ago it is


def _sentence(text: str) -> str:
    """Return text that begins with a capital letter, unless its first word is a name such as `onward.toml`."""
    return text[:1].upper() + text[1:] if _WORD.match(text) else text


def _sentence_html(sentence: Sentence, *, capital: bool = True) -> Markup:
    """Return a sentence with its points in time as elements, in the viewer's zone.

    It begins with a capital letter, unless it begins with a name.
    """
    parts = []
    for place, part in enumerate(sentence):
        if isinstance(part, str):
            text = harmless(part).replace("\n", " ")
            parts.append(escape(text if place or not capital else text[:1].upper() + text[1:]))
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
    loader, undefined = PackageLoader("onward.console"), StrictUndefined
    environment = Environment(
        loader=loader, autoescape=True, undefined=undefined, trim_blocks=True, lstrip_blocks=True
    )
    environment.filters |= {
        one.__name__: one
        for one in (
            counted,
            duration,
            harmless,
            content_documents,
            limit_text,
            media_type,
            needed_by,
            number,
            one_line,
            size,
        )
    }
    environment.filters |= {
        "ago": _ago,
        "lang": lang_attribute,
        "sentence": _sentence,
        "sentence_html": _sentence_html,
        "outage_html": outage_html,
        "time": _time,
        # The numbers of a text are not broken at the end of a line.
        "whole_numbers": partial(re.compile(r"(?<=\d) (?=\d{3}\b)").sub, "\N{NO-BREAK SPACE}"),
    }
    environment.globals |= {"asset": _asset, "document_path": document_path, "menu": MENU, "page_path": page_path}
    environment.globals |= {
        "attachment_path": attachment_path,
        "similar_path": similar_path,
        "viewer_zone": viewer_zone,
        "replica_note": _replica_note,
    }
    return environment


def fragment(template: str, **values: Any) -> str:
    return _environment().get_template(template).render(values)


def form_token(request: Request) -> str:
    """Return the token for forms of a page that this browser already has."""
    sessions: Sessions = request.app.state.sessions
    cookie = cookie_of(request)
    return sessions.form_token(cookie) if cookie else ""


def page(
    request: Request, template: str, *, status: int = 200, headers: Mapping[str, str] | None = None, **values: Any
) -> HTMLResponse:
    """Render a whole page; its forms can be sent by this browser only."""
    sessions: Sessions = request.app.state.sessions
    cookie = cookie_of(request)
    fresh = "" if sessions.is_valid(cookie) or sessions.needs_token else sessions.begin()
    cookie = fresh or cookie
    recent, said = _operations(request.app.state.onward, request.query_params.get("said", ""))
    shared = {
        "path": request.url.path,
        "form_token": sessions.form_token(cookie) if cookie else "",
        "logged_in": sessions.needs_token,
        "said": said,
        "recent": recent,
        "may_reload": request.method == "GET",
        "outages": partial(outage_banner, request.app),
    }
    response = HTMLResponse(fragment(template, **shared | values), status, dict(headers or {}))
    if fresh:
        set_session(response, request, fresh)
    return response


def _operations(app: App, id: str) -> tuple[list[Operation], str]:
    """Return the latest operations, and the result of the one that led back to this page; the URL has its id."""
    try:
        found = app.store.operation(id) if id.isalnum() else None
        return app.store.operations(limit=MAX_RECENT), found.text if found is not None else ""
    except StoreError:  # the page says it
        return [], ""


def _replica_note() -> str:
    """Return how old a page is that was read from the replica; empty if it is not."""
    reads = current_reads()
    return one_line(reads.note) if reads is not None else ""


def outage_html(outage: Outage) -> Markup:
    return _sentence_html(outage_sentence(outage), capital=False)


def outage_banner(web: FastAPI) -> Markup:
    """Return what every page says about dependencies that are down; empty if none is."""
    app: App = web.state.onward
    cache: TimedCache[list[Outage]] = web.state.outages
    try:
        # Computed again when a breaker has changed; else only the number of waiting events may be old.
        found = cache.get(app.store.breakers(), lambda: read_outages(app.store))
    except StoreError:  # the page says it
        return Markup("")
    loud = [one for one in found if one.state in ("open", "unreached")]
    quiet = [one for one in found if one not in loud]
    return Markup(fragment("outages.html", loud=loud, quiet=quiet))


def set_session(response: Response, request: Request, cookie: str) -> None:
    """Set the session cookie; no script can read it, and no other site can send it."""
    age, secure = int(SESSION_SECONDS), request.url.scheme == "https"
    response.set_cookie(cookie_name(request), cookie, age, httponly=True, samesite="strict", secure=secure)
