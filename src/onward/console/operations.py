"""Operations that run in this server, each in a thread of its own, and the responses of the API about actions."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from typing import Any

from starlette.responses import JSONResponse

from onward.app import App
from onward.console.problems import Problem
from onward.model.operations import Operation, OperationStatus
from onward.ops.actions.action import Action, ActionProgress, Actor
from onward.ops.operation_run import OperationRun, begin_operation, continue_operation, find_operation

API = Actor("api", "api")
CONSOLE = Actor("console", "console")
BACK = "/actions"
SHUTDOWN_SECONDS = 3.0  # that running operations get to end their present step


class Operations:
    """The operations that run in this process; the store has all of them."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._running: dict[str, OperationRun] = {}

    def start(self, action: Action, actor: Actor, *, title: str, back: str) -> OperationRun:
        """Run an action in a thread of its own."""
        return self._start(begin_operation(self._app, action, actor, title=title, back=back), actor)

    def go_on(self, id: str, actor: Actor) -> OperationRun:
        """Continue an operation that was interrupted or stopped, or has failed."""
        return self._start(continue_operation(self._app, id), actor)

    def _start(self, run: OperationRun, actor: Actor) -> OperationRun:
        def execute() -> None:
            with suppress(Exception):  # it is stored and logged
                run.execute(actor)
            self._running.pop(run.id, None)

        self._running[run.id] = run
        threading.Thread(target=execute, name="onward-operation", daemon=True).start()
        return run

    def record(self, title: str, actor: Actor, back: str, text: str) -> str:
        """Store something that was done already, for the page that says so; return its id."""
        begun, status = self._app.store.begin_operation(title, *actor, back=back), OperationStatus.DONE
        self._app.store.end_operation(begun.id, 1, status, done=1, total=1, text=text)
        return begun.id

    def get(self, id: str) -> Operation:
        return find_operation(self._app, id)

    def stop(self, id: str) -> Operation:
        """Ask an operation to stop, also if another process runs it."""
        operation = find_operation(self._app, id)
        self._app.store.stop_operation(id)
        if (run := self._running.get(id)) is not None:
            run.stop()
        return operation

    def close(self) -> None:
        """Interrupt what runs here, because the server ends; it can be continued by the next one."""
        running = list(self._running.values())
        for run in running:
            run.stop(interrupted=True)
        until = time.monotonic() + SHUTDOWN_SECONDS
        for run in running:
            run.join(max(0.0, until - time.monotonic()))


def carry_out(
    app: App, operations: Operations, action: Action, asked: Any = None, *, needs_something: bool = False
) -> JSONResponse:
    """Run an action, or with `asked.dry_run` only return its plan; a slow one goes on after the response."""
    plan = action.plan(app)
    if needs_something and not plan.touches:
        raise Problem(409, "There is nothing to change", plan.text)
    dry_run = asked is not None and asked.dry_run
    facts = {"dry_run": dry_run, "touches": plan.touches, "final": plan.final, "operation": None}
    if dry_run or not plan.touches:
        return JSONResponse(facts | {"text": plan.text})
    if not plan.slow:
        # In this thread: an error becomes the response of this request.
        outcome = action.run(app, ActionProgress(), API)
        if outcome.error is not None:
            raise outcome.error
        return JSONResponse(facts | {"text": outcome.text})
    where = f"/v3/operations/{operations.start(action, API, title=plan.title, back=BACK).id}"
    return JSONResponse(
        facts | {"text": f"It has begun: {plan.text}", "operation": where}, 202, {"location": where}
    )
