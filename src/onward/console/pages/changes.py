"""Confirming a change, carrying it out, and seeing how it goes."""

from __future__ import annotations

from collections.abc import Mapping

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.acting import CHANGES, Change
from onward.console.asking import Onward, OwnForm, Running
from onward.console.operations import Operation, Operations
from onward.console.problems import Problem
from onward.console.rendering import fragment, page

router = APIRouter()

WHO = "console"


def _change(name: str) -> Change:
    if name not in CHANGES:
        raise Problem(404, "Not found", f"There is no change called {name[:50]!r}.")
    return CHANGES[name]


@router.get("/confirm/{name}")
def confirm(request: Request, app: Onward, name: str) -> Response:
    """What a change would touch."""
    given = dict(request.query_params)
    return page(request, "confirm.html", name=name, given=given, plan=_change(name).plan(app, given))


@router.post("/do/{name}")
def do(request: Request, app: Onward, operations: Running, form: OwnForm, name: str) -> Response:
    """Carry a change out."""
    change = _change(name)
    given = {key: str(value) for key, value in form.items() if key != "form_token"}
    plan = change.plan(app, given)
    operation = operations.begin(plan.title, plan.back, lambda one: _do(change, app, given, one))
    if not plan.long:
        operation.join()
        if not operation.problem:
            mark = "&" if "?" in plan.back else "?"
            return RedirectResponse(f"{plan.back}{mark}said={operation.id}", 303)
    return RedirectResponse(f"/operations/{operation.id}", 303)


def _do(change: Change, app: App, given: Mapping[str, str], operation: Operation) -> str:
    return change.do(app, given, operation, who=WHO, via="console")


@router.get("/operations/{id}")
def operation(request: Request, operations: Running, id: str) -> Response:
    """How a change goes."""
    return page(request, "operation.html", operation=_operation(operations, id))


@router.post("/operations/{id}/stop")
def stop(operations: Running, form: OwnForm, id: str) -> Response:
    """Let a change end where it is."""
    _operation(operations, id).stop()
    return RedirectResponse(f"/operations/{id}", 303)


def _operation(operations: Operations, id: str) -> Operation:
    found = operations.get(id)
    if found is None:
        raise Problem(404, "Not found", "This is not known any more; /actions keeps what was changed.")
    return found


def part(web: FastAPI, which: str) -> str:
    """How a change goes, for who watches it."""
    return fragment("operation_part.html", operation=_operation(web.state.operations, which))
