"""Actions that run in this server: in a thread of their own, with their progress for the pages and the API."""

from __future__ import annotations

import logging
import secrets
import threading
import time
from typing import Any

from starlette.responses import JSONResponse

from onward.app import App
from onward.console.problems import Problem
from onward.ops.actions.action import Action, ActionProgress, ActionStopped, Actor, Completion
from onward.retry import redact_error

log = logging.getLogger("onward")

MAX_ENDED = 100  # operations that are remembered after they have ended
API = Actor("api", "api")
BACK = "/actions"


class Operation(ActionProgress):
    """One run of an action, and how far it has come."""

    def __init__(self, title: str, back: str) -> None:
        super().__init__()
        self.title = title
        self.back = back  # the page from which it was started
        self.id = secrets.token_hex(6)
        self.began = time.time()
        self.ended: float | None = None
        self.problem = ""
        self._stop_event = threading.Event()
        self._end_event = threading.Event()

    @property
    def running(self) -> bool:
        return self.ended is None

    def stop(self) -> None:
        self.stopping = True
        self._stop_event.set()

    def join(self) -> None:
        self._end_event.wait()

    def sleep(self, seconds: float) -> None:
        if self._stop_event.wait(seconds):
            raise ActionStopped

    def run(self, app: App, action: Action, actor: Actor) -> None:
        """Run an action, and keep what it has done or what went wrong."""
        try:
            outcome = action.run(app, self, actor)
            self.text = outcome.text
            if outcome.stopped:
                self.problem = "Stopped by an operator; completed changes are kept."
            elif outcome.error is not None:
                raise outcome.error
            elif outcome.completion is Completion.FAILED:
                self.problem = outcome.text
        except Exception as error:
            self.problem = redact_error(f"{type(error).__name__}: {error}")
            log.error("%s failed: %s", self.title, self.problem)
        finally:
            self.ended = time.time()
            self._end_event.set()


class Operations:
    """All operations that run, and the last that have ended."""

    def __init__(self) -> None:
        self._known: dict[str, Operation] = {}

    def start(self, app: App, action: Action, actor: Actor, *, title: str, back: str) -> Operation:
        """Run an action in a thread of its own."""
        operation = self._add(Operation(title, back))
        about = (app, action, actor)
        threading.Thread(target=operation.run, args=about, name="onward-operation", daemon=True).start()
        return operation

    def record(self, title: str, back: str, text: str) -> Operation:
        """Remember something that was done already, for the page that says so."""
        operation = self._add(Operation(title, back))
        operation.text, operation.ended = text, time.time()
        return operation

    def _add(self, operation: Operation) -> Operation:
        self._known[operation.id] = operation
        ended = [known for known in self._known.values() if not known.running]
        for old in ended[: max(0, len(self._known) - MAX_ENDED)]:
            del self._known[old.id]
        return operation

    def get(self, id: str) -> Operation | None:
        return self._known.get(id)

    def all(self) -> list[Operation]:
        return list(reversed(self._known.values()))

    def stop(self) -> None:
        for operation in self._known.values():
            operation.stop()


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
        outcome = action.run(app, Operation(plan.title, BACK), API)
        if outcome.error is not None:
            raise outcome.error
        return JSONResponse(facts | {"text": outcome.text})
    where = f"/v3/operations/{operations.start(app, action, API, title=plan.title, back=BACK).id}"
    return JSONResponse(
        facts | {"text": f"It has begun: {plan.text}", "operation": where}, 202, {"location": where}
    )
