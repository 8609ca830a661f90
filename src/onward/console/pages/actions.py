"""Confirming an action, running it, and following its operation; the action log and all operations."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any
from urllib.parse import parse_qsl, quote, urlencode

from fastapi import APIRouter, Depends, FastAPI, Request
from starlette.responses import RedirectResponse, Response

from onward.app import App
from onward.console.action_forms import FORMS, ActionForm, FormValues, clean
from onward.console.operations import CONSOLE
from onward.console.page_templates import MAX_RECENT, fragment, page, with_query
from onward.console.problems import Problem
from onward.console.request_context import Onward, OwnForm, Running
from onward.model.operations import Operation
from onward.ops.operation_run import find_operation
from onward.ops.queries.operations import STATUSES, operation_about
from onward.ops.queries.titles import titled_ids
from onward.ops.text.format import number

router = APIRouter(include_in_schema=False)

PAGE = 50
MOST_ID = 2**63
GROUP_RETRIES = ("RetryFailureGroup", "RetryGroupInSteps", "RetryFailureGroups")
MAX_NAMED = 5  # of the things that an action was about


def _form(name: str) -> ActionForm:
    if name not in FORMS:
        raise Problem(404, "Not found", f"There is no action called {name[:50]!r}.")
    return FORMS[name]


@router.get("/confirm/{name}")
def confirm(request: Request, app: Onward, name: str) -> Response:
    return _confirm(request, name, _values(app, request.query_params.multi_items()))


@router.post("/confirm/{name}")
def confirm_selection(request: Request, app: Onward, data: OwnForm, name: str) -> Response:
    """Confirm an action on selected entries of a list: their ids may be too long for an address."""
    return _confirm(request, name, _values(app, data.multi_items()))


def _values(app: App, items: Iterable[tuple[str, Any]]) -> FormValues:
    """Return the values of a form; several of one name are joined by line ends."""
    values: dict[str, str] = {}
    for name, value in items:
        if name != "form_token":
            values[name] = f"{values[name]}\n{value}" if name in values else str(value)
    return FormValues(app, values)


def _confirm(request: Request, name: str, form: FormValues) -> Response:
    asked = _form(name)
    plan = asked.action(form).plan(form.app)
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
    form = _values(app, data.multi_items())
    action = asked.action(form)
    plan, back = action.plan(app), asked.back(form)
    run = operations.start(action, CONSOLE, title=plan.title, back=back)
    if not plan.slow and run.join() and not operations.get(run.id).problem:
        return RedirectResponse(f"{back}{'&' if '?' in back else '?'}said={run.id}", 303)
    return RedirectResponse(f"/operations/{run.id}", 303)


# -- operations


@router.get("/operations/{id}")
def operation(request: Request, app: Onward, id: str) -> Response:
    found = find_operation(app, id)
    return page(request, "operation.html", operation=found, part=_operation(app, found))


@router.post("/operations/{id}/stop")
def stop(operations: Running, data: OwnForm, id: str) -> Response:
    operations.stop(id)
    return RedirectResponse(f"/operations/{id}", 303)


@router.post("/operations/{id}/continue")
def continue_it(operations: Running, data: OwnForm, id: str) -> Response:
    operations.go_on(id, CONSOLE)
    return RedirectResponse(f"/operations/{id}", 303)


def operation_part(web: FastAPI, which: str) -> str:
    return _operation(web.state.onward, find_operation(web.state.onward, which))


def _operation(app: App, operation: Operation) -> str:
    about = operation_about(app, operation)
    return fragment("operation_part.html", operation=operation, about=about, retries=GROUP_RETRIES)


@dataclass(slots=True)
class OperationListFilter:
    status: str = ""
    who: str = ""

    def __post_init__(self) -> None:
        self.status, self.who = clean(self.status), clean(self.who).strip()

    def path(self, before: str = "") -> str:
        return with_query("/operations", status=self.status, who=self.who, before=before)


@router.get("/operations")
def show_operations(
    request: Request, app: Onward, wanted: Annotated[OperationListFilter, Depends()], before: str = ""
) -> Response:
    """Show operations, the latest first; the first page is live."""
    before = clean(before)
    live = "" if before else f"/live/operations/{quote(urlencode(asdict(wanted)), safe='')}"
    part = _operations(app, wanted, before)
    return page(request, "operations.html", wanted=wanted, statuses=STATUSES, live=live, part=part)


def operations_part(web: FastAPI, which: str) -> str:
    given = dict(parse_qsl(which))
    return _operations(web.state.onward, OperationListFilter(given.get("status", ""), given.get("who", "")), "")


def recent_part(web: FastAPI, which: str) -> str:
    """Return the latest operations, as every page shows them."""
    return fragment("recent_operations.html", recent=web.state.onward.store.operations(limit=MAX_RECENT))


def _operations(app: App, wanted: OperationListFilter, before: str) -> str:
    status = wanted.status if wanted.status in STATUSES else None
    found = app.store.operations(status=status, who=wanted.who or None, before=before or None, limit=PAGE + 1)
    shown = found[:PAGE]
    return fragment(
        "operations_part.html",
        operations=shown,
        following=wanted.path(shown[-1].id) if len(found) > PAGE else "",
        first=wanted.path() if before else "",
        filtered=bool(wanted.status or wanted.who),
    )


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
        actions=[(one, [(name, _shown(app, name, value)) for name, value in one.about.items()]) for one in shown],
        following=f"/actions?before={shown[-1].id}" if len(found) > PAGE else "",
        first="/actions" if before is not None else "",
    )


def _shown(app: App, name: str, value: Any) -> str:
    """Return a value of an action; documents have their titles."""
    if not isinstance(value, list):
        return str(value)
    shown = [str(one) for one in value[:MAX_NAMED]]
    more = f" and {number(len(value) - MAX_NAMED)} more" if len(value) > MAX_NAMED else ""
    return ", ".join(titled_ids(app, shown) if name == "ids" else shown) + more
