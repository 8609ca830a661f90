"""Errors as responses: problem details (RFC 9457) for programs, a page for people."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping, Sequence
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import APIRouter, FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Match, Route
from starlette.types import Receive, Scope, Send

from onward.console.page_templates import fragment, page
from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.ops.bad_input import BadInput, NotFound, NotPossible
from onward.ops.text.format import one_line, printable
from onward.pipeline.query_language import QueryError
from onward.retry import OnwardError, redact, redact_error

log = logging.getLogger("onward")

MEDIA_TYPE = "application/problem+json"
API = ("/v3/", "/api/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/live/")  # get errors as JSON
LISTED_ERRORS = 5  # of many wrong fields, this many are listed in the detail


class Problem(HTTPException):
    """An error response. It is an HTTP exception, so that FastAPI passes it on while it reads a body."""

    def __init__(
        self, status: int, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(status, redact(detail), dict(headers or {}))
        self.status = status
        self.title = title
        self.more = more

    def as_dict(self) -> dict[str, Any]:
        facts = {"type": "about:blank", "title": self.title, "status": self.status, "detail": self.detail}
        return facts | self.more


def problem_of(error: Exception) -> Problem:
    match error:
        case Problem():
            return error
        case NotFound():
            return Problem(404, "Not found", str(error))
        case BadInput():
            return Problem(422, "This cannot be used", str(error))
        case QueryError():
            return Problem(400, "This query cannot be read", str(error))
        case NotPossible():
            return Problem(409, "This is not possible now", str(error))
        case StoreFull():
            return Problem(507, "The store cannot be written", str(error))
        case StoreUnavailable():
            return Problem(503, "The store cannot be reached", str(error), headers={"retry-after": "5"})
        case OnwardError():
            return Problem(422, "This cannot be done", str(error))
        case RequestValidationError():
            errors = [_field_error(one) for one in error.errors()]
            listed = describe_field_errors(error.errors()) or "The request makes no sense."
            return Problem(422, "This cannot be used", listed, errors=errors[:100])
        case HTTPException():
            status, detail = HTTPStatus(error.status_code), str(error.detail)
            if status == HTTPStatus.NOT_FOUND:
                detail = "There is no such page. /docs lists the API, / is the console."
            return Problem(status.value, status.phrase.capitalize(), detail, headers=error.headers)
        case ClientDisconnect():
            return Problem(400, "Incomplete body", "The body ended before it was complete.")
        case _:
            log.error("a request failed: %s", redact_error(f"{type(error).__name__}: {error}"), exc_info=error)
            return Problem(500, "Internal error", "The log of the server has the details.")


def describe_field_errors(errors: Sequence[Any]) -> str:
    """Return what is wrong with a body, from the errors that pydantic lists."""
    found = (_field_error(one) for one in errors[:LISTED_ERRORS])
    return "; ".join(f"{one['where']} {one['message']}" for one in found)


def _field_error(one: Mapping[str, Any]) -> dict[str, str]:
    """Return what is wrong with a field: the given value, and what is allowed."""
    if one["type"] == "missing":  # its input is all that was given, which may be long
        message = "is missing: it is needed"
    elif one["type"] == "json_invalid":  # its place is a position in the text, not a field
        return {"where": "body", "message": "is no JSON: check quotes, commas and brackets"}
    elif one["type"] == "extra_forbidden":
        message = "is not known: check its name, or leave it out"
    else:
        given = one_line(printable(redact(str(one.get("input", ""))[:1000])), 60)
        text = str(one["msg"]).removeprefix("Input ").removeprefix("Value error, ")
        message = f"is {given!r}: {text[:1].lower()}{text[1:]}"
    return {"where": one_line(printable(".".join(map(str, one["loc"]))), 100) or "it", "message": message}


def _respond(problem: Problem, request: Request) -> Response:
    if _wants_page(request):
        return page(request, "problem.html", status=problem.status, headers=problem.headers, problem=problem)
    return JSONResponse(problem.as_dict(), problem.status, problem.headers, MEDIA_TYPE)


def _wants_page(request: Request) -> bool:
    return not request.url.path.startswith(API) and "text/html" in request.headers.get("accept", "")


async def send_problem(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a problem from outside the app's routes; the reader may not be logged in, so the page has no menu."""
    request = Request(scope, receive)
    if not _wants_page(request):
        response = _respond(problem, request)
    elif problem.status == HTTPStatus.UNAUTHORIZED:
        response = _to_login(request)
    else:
        response = HTMLResponse(fragment("refusal.html", problem=problem), problem.status, problem.headers)
    await response(scope, receive, send)


def _to_login(request: Request) -> Response:
    """Redirect to the login, and from there to the requested page."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = "/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}"
    if request.headers.get("sec-fetch-site", "").endswith("-site"):
        # A link on another site comes without the cookie; a redirect by a page of this server sends it.
        return HTMLResponse(fragment("coming.html", login=login), headers={"refresh": f"0; url={login}"})
    return RedirectResponse(login, 303)


def add_handlers(api: FastAPI) -> None:
    async def handle(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
            allow = _allowed_methods(request)
            problem.headers = {"allow": allow}
            problem.detail = f"{request.method} is not allowed here. Allowed: {allow or 'nothing'}. See /docs."
        return _respond(problem, request)

    for kind in (Problem, OnwardError, RequestValidationError, HTTPException, Exception):
        api.add_exception_handler(kind, handle)


def add_routers(web: FastAPI, routers: Iterable[APIRouter]) -> None:
    """Add routes, and store them for the 405 response: FastAPI does not promise how it stores them.

    They are added as they are: `include_router` would read the signature of every handler again for each web app.
    """
    web.state.routes = [*getattr(web.state, "routes", ())]
    for router in routers:
        web.router.routes += router.routes
        web.state.routes += [one for one in router.routes if isinstance(one, Route)]


def _allowed_methods(request: Request) -> str:
    """Return the methods of a path, as the header Allow lists them.

    An id may contain slashes, so several routes may match; the one with the longest fixed part is meant.
    """
    fitting: dict[str, set[str]] = {}
    for route in request.app.state.routes:
        if route.matches(request.scope)[0] is not Match.NONE:
            fitting.setdefault(re.sub(r"\{[^}]*\}", "", route.path_format), set()).update(route.methods or ())
    return ", ".join(sorted(fitting[max(fitting, key=len)])) if fitting else ""
