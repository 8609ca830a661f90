"""Actions over HTTP: their plans, running them, and following those that take a while."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from onward.app import App
from onward.console.api import schemas
from onward.console.api.openapi import problems
from onward.console.operations import Operation, Operations
from onward.console.problems import Problem
from onward.console.request_context import Running
from onward.ops.actions.action import Action, Actor
from onward.ops.text.format import iso, one_line

router = APIRouter(prefix="/v3/operations", tags=["Standing"])

API = Actor("api", "api")
BACK = "/actions"
CHANGED: dict[int | str, dict[str, Any]] = {
    202: {"model": schemas.Changed, "description": "It has begun; `operation` is where to follow it"}
}


def carry_out(app: App, operations: Operations, action: Action, *, dry_run: bool = False) -> JSONResponse:
    """Run an action, or only return its plan; a slow one goes on after the response."""
    plan = action.plan(app)
    facts = {"dry_run": dry_run, "touches": plan.touches, "final": plan.final, "operation": None}
    if dry_run or not plan.touches:
        return JSONResponse(facts | {"text": plan.text})
    if not plan.slow:
        # In this thread: an error becomes the response of this request.
        outcome = action.run(app, Operation(plan.title, BACK), API)
        if outcome.error is not None:
            raise outcome.error
        return JSONResponse(facts | {"text": outcome.text})
    operation = operations.start(app, action, API, title=plan.title, back=BACK)
    where = f"/v3/operations/{operation.id}"
    body = facts | {"text": f"It has begun: {plan.text}", "operation": where}
    return JSONResponse(body, 202, {"location": where})


@router.get("", summary="List changes that take a while", response_model=list[schemas.Operation])
def list_operations(operations: Running) -> list[dict[str, Any]]:
    """List the operations that run or have run in this server, the newest first."""
    return [_facts(operation) for operation in operations.all()]


@router.get(
    "/{id}",
    summary="See how a change goes",
    response_model=schemas.Operation,
    responses=problems(404),
)
def get_operation(operations: Running, id: str) -> dict[str, Any]:
    """Get its progress and its result. The last 100 operations are kept."""
    return _facts(_found(operations, id))


@router.post(
    "/{id}/stop",
    summary="Stop a change where it is",
    status_code=202,
    response_model=schemas.Operation,
    responses=problems(404),
)
def stop_operation(operations: Running, id: str) -> dict[str, Any]:
    """Stop an operation as soon as possible; completed changes are kept."""
    operation = _found(operations, id)
    operation.stop()
    return _facts(operation)


def _found(operations: Operations, id: str) -> Operation:
    found = operations.get(id)
    if found is None:
        raise Problem(
            404,
            "Not found",
            f"There is no operation {one_line(id, 60)!r} in this server, or no longer; "
            "`onward actions` keeps what was changed.",
        )
    return found


def _facts(operation: Operation) -> dict[str, Any]:
    return {
        "id": operation.id,
        "title": operation.title,
        "running": operation.running,
        "done": operation.done,
        "total": operation.total,
        "text": operation.text,
        "problem": operation.problem or None,
        "began": iso(operation.began),
        "ended": iso(operation.ended),
    }
