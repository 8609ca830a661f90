"""The action log, and the operations that run in this server."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.console.operations import Operations
from onward.console.page_templates import fragment, page
from onward.console.request_context import Onward, Running

router = APIRouter()

PAGE = 50
MOST_ID = 2**63


class ActionTime(NamedTuple):
    """A point in time that a change was about."""

    at: str


@router.get("/actions")
def show(request: Request, app: Onward) -> Response:
    """Show the action log, the latest first."""
    given = request.query_params.get("before", "")
    before = int(given) if given.isascii() and given.isdecimal() and int(given) < MOST_ID else None
    found = app.store.actions(limit=PAGE + 1, before=before)
    shown = found[:PAGE]
    return page(
        request,
        "actions.html",
        actions=[
            {
                "at": action.at,
                "who": action.who,
                "via": action.via,
                "action": action.action,
                "touched": action.touched,
                "about": [(name, _shown(name, value)) for name, value in action.about.items()],
            }
            for action in shown
        ],
        following=f"/actions?before={shown[-1].id}" if len(found) > PAGE else "",
        first="/actions" if before is not None else "",
    )


def _shown(name: str, value: Any) -> str | ActionTime:
    """Return a value as text; a time as `ActionTime`, which the page shows in the reader's time zone."""
    if name == "at" and isinstance(value, str):
        return ActionTime(value)
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


@router.get("/operations")
def show_operations(request: Request, operations: Running) -> Response:
    """Show the changes that run or have run since this server was started."""
    return page(request, "operations.html", part=_operations(operations))


def operations_part(web: FastAPI, which: str) -> str:
    """Render the live part of the page."""
    return _operations(web.state.operations)


def _operations(operations: Operations) -> str:
    return fragment("operations_part.html", operations=operations.all())
