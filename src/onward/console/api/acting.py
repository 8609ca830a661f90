"""Changes over HTTP: what they would touch, carrying them out, and following those that take a while."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import APIRouter
from starlette.responses import JSONResponse

from onward.app import App
from onward.console import (  # each makes its changes known
    changes_batches,
    changes_breakers,
    changes_documents,
    changes_failures,
    changes_queues,
    changes_sources,
    changes_submitted,
)
from onward.console.acting import CHANGES
from onward.console.api import models
from onward.console.api.describing import problems
from onward.console.asking import Running
from onward.console.operations import Operation, Operations
from onward.console.problems import Problem
from onward.facts.wording import iso, one_line

__all__ = [
    "carry_out",
    "changes_batches",
    "changes_breakers",
    "changes_documents",
    "changes_failures",
    "changes_queues",
    "changes_sources",
    "changes_submitted",
    "router",
]

router = APIRouter(prefix="/v3/operations", tags=["Standing"])

WHO = "api"
CHANGED: dict[int | str, dict[str, Any]] = {
    202: {"model": models.Changed, "description": "It has begun; `operation` tells how it goes"}
}


def carry_out(
    app: App, operations: Operations, name: str, given: Mapping[str, object], *, dry_run: bool = False
) -> JSONResponse:
    """Carry a change out, or only say what it would touch; one that takes a while goes on beside the answer."""
    fields = {key: _field(value) for key, value in given.items() if value is not None}
    change = CHANGES[name]
    plan = change.plan(app, fields)
    told = {"dry_run": dry_run, "touches": plan.touches, "final": not plan.undo, "operation": None}
    if dry_run or not plan.touches:
        return JSONResponse(told | {"text": " ".join(plan.sentences)})

    def do(operation: Operation) -> str:
        return change.do(app, fields, operation, who=WHO, via="api")

    if not plan.long:
        # Not beside: what goes wrong is answered as what it is.
        return JSONResponse(told | {"text": do(Operation(plan.title, plan.back))})
    operation = operations.begin(plan.title, plan.back, do)
    where = f"/v3/operations/{operation.id}"
    body = told | {"text": f"It has begun: {' '.join(plan.sentences)}", "operation": where}
    return JSONResponse(body, 202, {"location": where})


def _field(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else ""
    return str(value)


@router.get("", summary="List changes that take a while", response_model=list[models.Operation])
def list_operations(operations: Running) -> list[dict[str, Any]]:
    """Those that run or have run in this server, the newest first."""
    return [_facts(one) for one in operations.all()]


@router.get(
    "/{id}",
    summary="See how a change goes",
    response_model=models.Operation,
    responses=problems(404),
)
def get_operation(operations: Running, id: str) -> dict[str, Any]:
    """How far it has come, and what came of it. The last 100 are remembered."""
    return _facts(_found(operations, id))


@router.post(
    "/{id}/stop",
    summary="Stop a change where it is",
    status_code=202,
    response_model=models.Operation,
    responses=problems(404),
)
def stop_operation(operations: Running, id: str) -> dict[str, Any]:
    """It ends as soon as it can; what was done stays done."""
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


def _facts(one: Operation) -> dict[str, Any]:
    return {
        "id": one.id,
        "title": one.title,
        "running": one.running,
        "done": one.done,
        "total": one.total,
        "text": one.text,
        "problem": one.problem or None,
        "began": iso(one.began),
        "ended": iso(one.ended),
    }
