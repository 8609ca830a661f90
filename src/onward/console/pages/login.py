"""Logging in with the token, where one is needed."""

from __future__ import annotations

from fastapi import APIRouter, Request
from starlette.responses import RedirectResponse, Response

from onward.console.page_templates import page, set_session
from onward.console.request_context import Logins, OwnForm
from onward.console.sessions import cookie_name, cookie_of

router = APIRouter(include_in_schema=False)


@router.get("/login")
def show(request: Request, sessions: Logins, next: str = "/", ended: bool = False) -> Response:
    wanted = own_path(next)
    if sessions.is_allowed(None, cookie_of(request)):
        return RedirectResponse(wanted, 303)
    return page(request, "login.html", wrong=False, next=wanted, ended=ended)


@router.post("/login")
async def log_in(request: Request, sessions: Logins) -> Response:
    """Begin a session for a user with the token. Another site gains nothing by logging somebody in."""
    form = await request.form()
    wanted = own_path(str(form.get("next", "/")))
    if sessions.needs_token and not sessions.is_token(str(form.get("token", "")).strip()):
        return page(request, "login.html", status=401, wrong=True, next=wanted, ended=False)
    response = RedirectResponse(wanted, 303)
    set_session(response, request, sessions.begin())
    return response


@router.post("/logout")
def log_out(request: Request, sessions: Logins, form: OwnForm) -> Response:
    sessions.end(cookie_of(request))
    response = RedirectResponse("/login?ended=true" if sessions.needs_token else "/", 303)
    secure = request.url.scheme == "https"
    response.delete_cookie(cookie_name(request), httponly=True, samesite="strict", secure=secure)
    return response


def own_path(path: str) -> str:
    """Return a path of this server; for any other address, that of the overview."""
    # A browser takes \ for /, leaves out control characters, and reads //host as another server.
    own = path.startswith("/") and path[1:2] not in ("/", "\\") and path.isprintable()
    return path if own else "/"
