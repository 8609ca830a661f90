"""Parameters that pages and API calls share: the app, the operations, the sessions, a form of this server."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from fastapi import Depends, Request
from starlette.datastructures import FormData, UploadFile

from onward.app import App
from onward.console.operations import Operations
from onward.console.problems import Problem
from onward.console.sessions import Sessions, cookie_of


async def _own_form(request: Request) -> AsyncIterator[FormData]:
    """Return a form that this server gave to this browser; refuse one that another site made it send."""
    async with request.form() as form:
        given = form.get("form_token", "")
        sessions: Sessions = request.app.state.sessions
        if isinstance(given, UploadFile) or not sessions.is_own_form(cookie_of(request), given):
            raise Problem(403, "This form is too old", "Go back, load the page again, and send it once more.")
        yield form


def _from_state(name: str) -> Callable[[Request], Any]:
    def get(request: Request) -> Any:
        return getattr(request.app.state, name)

    return get


Onward = Annotated[App, Depends(_from_state("onward"))]
Running = Annotated[Operations, Depends(_from_state("operations"))]
Logins = Annotated[Sessions, Depends(_from_state("sessions"))]
OwnForm = Annotated[FormData, Depends(_own_form)]
