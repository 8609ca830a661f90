"""Confirming an action, running it, and following its operation; the action log and all operations."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from onward.console.action_forms import FORMS, ActionForm, FormValues
from onward.console.operations import Operation, Operations
from onward.console.page_templates import fragment, page
from onward.console.problems import Problem
from onward.console.request_context import Onward, OwnForm, Running
from onward.ops.actions.action import Actor

router = APIRouter()

CONSOLE = Actor("console", "console")
PAGE = 50
MOST_ID = 2**63


def _form(name: str) -> ActionForm:
    if name not in FORMS:
        raise Problem(404, "Not found", f"There is no action called {name[:50]!r}.")
    return FORMS[name]


@router.get("/confirm/{name}")
def confirm(request: Request, app: Onward, name: str) -> Response:
    asked, form = _form(name), FormValues(app, dict(request.query_params))
    plan = asked.action(form).plan(app)
    return page(
        request,
        "confirm.html",
        name=name,
        given=form.values,
        plan=plan,
        button=asked.button,
        back=asked.back(form),
        fields=asked.fields(form) if plan.touches else (),
    )


@router.post("/do/{name}")
def do(app: Onward, operations: Running, data: OwnForm, name: str) -> Response:
    """Run an action; a slow one goes on after the response."""
    asked = _form(name)
    form = FormValues(app, {key: str(value) for key, value in data.items() if key != "form_token"})
    action = asked.action(form)
    plan, back = action.plan(app), asked.back(form)
    operation = operations.start(app, action, CONSOLE, title=plan.title, back=back)
    if not plan.slow:
        operation.join()
        if not operation.problem:
            return RedirectResponse(f"{back}{'&' if '?' in back else '?'}said={operation.id}", 303)
    return RedirectResponse(f"/operations/{operation.id}", 303)


@router.get("/operations/{id}")
def operation(request: Request, operations: Running, id: str) -> Response:
    return page(request, "operation.html", operation=_operation(operations, id))


@router.post("/operations/{id}/stop")
def stop(operations: Running, data: OwnForm, id: str) -> Response:
    _operation(operations, id).stop()
    return RedirectResponse(f"/operations/{id}", 303)


def _operation(operations: Operations, id: str) -> Operation:
    found = operations.get(id)
    if found is None:
        raise Problem(404, "Not found", "This is not known any more; /actions keeps what was changed.")
    return found


def operation_part(web: FastAPI, which: str) -> str:
    return fragment("operation_part.html", operation=_operation(web.state.operations, which))


@router.get("/operations")
def show_operations(request: Request) -> Response:
    return page(request, "operations.html", part=operations_part(request.app, ""))


def operations_part(web: FastAPI, which: str) -> str:
    return fragment("operations_part.html", operations=web.state.operations.all())


@router.get("/actions")
def show_actions(request: Request, app: Onward) -> Response:
    """Show the action log, the latest first."""
    given = request.query_params.get("before", "")
    is_number = given.isascii() and given.isdecimal() and len(given) < 20
    before = int(given) if is_number and int(given) < MOST_ID else None
    found = app.store.actions(limit=PAGE + 1, before=before)
    shown = found[:PAGE]
    return page(
        request,
        "actions.html",
        actions=[(one, [(name, _shown(value)) for name, value in one.about.items()]) for one in shown],
        following=f"/actions?before={shown[-1].id}" if len(found) > PAGE else "",
        first="/actions" if before is not None else "",
    )


def _shown(value: Any) -> str:
    return ", ".join(str(one) for one in value) if isinstance(value, list) else str(value)
