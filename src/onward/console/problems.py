"""What went wrong, for programs (RFC 9457) and for people."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.types import Receive, Scope, Send

from onward.console.allowing import allowed
from onward.console.rendering import fragment, page
from onward.facts.finding import NotFound, Unusable
from onward.facts.wording import one_line, printable
from onward.ports import StoreError, StoreFull, StoreUnavailable
from onward.retry import OnwardError, redact, redact_error

log = logging.getLogger("onward")

MEDIA_TYPE = "application/problem+json"
API = ("/v3/", "/api/", "/healthz", "/readyz", "/metrics", "/openapi.json", "/live/")
_REMEMBER = 5
"""Of many wrong fields so many are named."""


class Problem(HTTPException):
    """An answer that is not what was hoped for; an HTTP exception, so that whoever reads a body lets it pass."""

    def __init__(
        self, status: int, title: str, detail: str, *, headers: Mapping[str, str] | None = None, **more: Any
    ) -> None:
        super().__init__(status, redact(detail), dict(headers or {}))
        self.status = status
        self.title = title
        self.more = more

    def as_dict(self) -> dict[str, Any]:
        return {
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            **self.more,
        }


def is_api(path: str) -> bool:
    """Whether programs ask there, and want JSON also when something is wrong."""
    return path.startswith(API)


def problem_of(error: Exception) -> Problem:
    """What is told about an error."""
    match error:
        case Problem():
            return error
        case NotFound():
            return Problem(404, "Not found", str(error))
        case Unusable():
            return Problem(422, "This cannot be used", str(error))
        case StoreFull():
            return Problem(507, "The store cannot be written", str(error))
        case StoreUnavailable():
            return Problem(503, "The store cannot be reached", str(error), headers={"retry-after": "5"})
        case StoreError() | OnwardError():
            return Problem(422, "This cannot be done", str(error))
        case RequestValidationError():
            return _invalid(error)
        case HTTPException():
            title = HTTPStatus(error.status_code).phrase.capitalize()
            return Problem(error.status_code, title, _said(error), headers=error.headers)
        case ClientDisconnect():
            return Problem(400, "Broken off", "The body ended before it was whole.")
        case _:
            log.error("a request failed: %s", redact_error(f"{type(error).__name__}: {error}"), exc_info=error)
            return Problem(500, "This should not have happened", "The server's log says what it was.")


def _said(error: HTTPException) -> str:
    if error.status_code == HTTPStatus.NOT_FOUND:
        return "There is nothing here. /docs lists what there is for programs, / is the console."
    return str(error.detail)


def _invalid(error: RequestValidationError) -> Problem:
    errors = [{"where": _where(one), "message": _wrong(one)} for one in error.errors()]
    listed = "; ".join(f"{one['where']} {one['message']}" for one in errors[:_REMEMBER])
    return Problem(422, "This cannot be used", listed or "The request makes no sense.", errors=errors[:100])


def _where(one: Mapping[str, Any]) -> str:
    return one_line(printable(".".join(str(part) for part in one["loc"])), 100) or "it"


def _wrong(one: Mapping[str, Any]) -> str:
    """What is wrong with a field: the value that was given, and what it should be."""
    if one["type"] == "missing":
        return "is missing: it is needed"
    if one["type"] == "extra_forbidden":
        return "is not known: check its name, or leave it out"
    given = one_line(printable(redact(str(one.get("input", ""))[:1000])), 60)
    said = str(one["msg"]).removeprefix("Input ").removeprefix("Value error, ")
    return f"is {given!r}: {said[:1].lower()}{said[1:]}"


def respond(problem: Problem, request: Request) -> Response:
    """An answer as JSON for programs, as a page for people."""
    if not _wants_page(request):
        return JSONResponse(
            problem.as_dict(), status_code=problem.status, headers=problem.headers, media_type=MEDIA_TYPE
        )
    return page(request, "problem.html", status=problem.status, headers=problem.headers, problem=problem)


def _wants_page(request: Request) -> bool:
    return not is_api(request.url.path) and "text/html" in request.headers.get("accept", "")


async def answer_refusal(problem: Problem, scope: Scope, receive: Receive, send: Send) -> None:
    """Send a problem from outside of the app's routes: to somebody who may be a stranger, so with no menu."""
    request = Request(scope, receive)
    if not _wants_page(request):
        response = respond(problem, request)
    elif problem.status == HTTPStatus.UNAUTHORIZED:
        response = _to_login(request)
    else:
        body = fragment("refusal.html", problem=problem)
        response = HTMLResponse(body, status_code=problem.status, headers=problem.headers)
    await response(scope, receive, send)


def _to_login(request: Request) -> Response:
    """Lead somebody to the login, and from there to where they wanted to go."""
    wanted = request.url.path + (f"?{request.url.query}" if request.url.query else "")
    login = "/login" if wanted == "/" else f"/login?next={quote(wanted, safe='')}"
    if request.headers.get("sec-fetch-site", "").endswith("-site"):
        # Who follows a link from elsewhere comes without the cookie; asked from a page of ours, it is sent.
        return HTMLResponse(fragment("coming.html", login=login), headers={"refresh": f"0; url={login}"})
    return RedirectResponse(login, 303)


def add_handlers(api: FastAPI) -> None:
    """Let every error end as a problem."""

    async def handle(request: Request, error: Exception) -> Response:
        problem = problem_of(error)
        if problem.status == HTTPStatus.METHOD_NOT_ALLOWED:
            allow = allowed(request)
            problem.headers = {"allow": allow}
            problem.detail = f"{request.method} is not taken here, but {allow or 'nothing'} is; /docs says how."
        return respond(problem, request)

    for kind in (Problem, OnwardError, RequestValidationError, HTTPException, Exception):
        api.add_exception_handler(kind, handle)
