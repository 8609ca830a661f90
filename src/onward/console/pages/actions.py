"""What people changed, and the changes that this server carries out just now."""

from __future__ import annotations

from typing import Any, NamedTuple

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import Response

from onward.console.asking import Onward, Running
from onward.console.operations import Operations
from onward.console.rendering import fragment, page

router = APIRouter()

PAGE = 50
MOST_ID = 2**63


class Moment(NamedTuple):
    """A point in time that a change was about."""

    at: str


@router.get("/actions")
def show(request: Request, app: Onward) -> Response:
    """The action log, the latest first."""
    given = request.query_params.get("before", "")
    before = int(given) if given.isascii() and given.isdecimal() and int(given) < MOST_ID else None
    found = app.store.actions(limit=PAGE + 1, before=before)
    shown = found[:PAGE]
    return page(
        request,
        "actions.html",
        actions=[
            {"at": one.at, "who": one.who, "via": one.via, "action": one.action, "touched": one.touched}
            | {"about": [(name, _shown(name, value)) for name, value in one.about.items()]}
            for one in shown
        ],
        following=f"/actions?before={shown[-1].id}" if len(found) > PAGE else "",
        first="/actions" if before is not None else "",
    )


def _shown(name: str, value: Any) -> str | Moment:
    """A value in words; a time, so that the page shows it in the reader's own zone."""
    if name == "at" and isinstance(value, str):
        return Moment(value)
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)


@router.get("/operations")
def show_operations(request: Request, operations: Running) -> Response:
    """The changes that run or have run since this server was started."""
    return page(request, "operations.html", part=_operations(operations))


def operations_part(web: FastAPI, which: str) -> str:
    """The same, for who watches it."""
    return _operations(web.state.operations)


def _operations(operations: Operations) -> str:
    return fragment("operations_part.html", operations=operations.all())
