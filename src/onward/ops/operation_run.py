"""Runs an action as an operation: its progress, cursor and result are stored, so that another process can go on.

An action that can be interrupted in the middle calls `progress.checkpoint(cursor)`; when the operation is
continued, it is run again with that `progress.cursor`. An action that finds what is left by itself needs none.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from onward.app import App
from onward.model.operations import Operation, OperationStatus
from onward.ops.actions.action import Action, ActionOutcome, ActionProgress, ActionStopped, Actor, Completion
from onward.ops.actions.stored_action import STORED_ACTIONS, action_parameters, read_action
from onward.ops.bad_input import NotFound, NotPossible
from onward.ops.text.format import harmless, one_line
from onward.retry import redact_error

log = logging.getLogger("onward")

SAVE_SECONDS = 1.0  # between two saves of the progress, which renew the lease and read whether it must stop
MAX_TEXT = 20_000
STOPPED = "Stopped by an operator; completed changes are kept."
TAKEN_OVER = "another process continues it"


def begin_operation(app: App, action: Action, actor: Actor, *, title: str, back: str = "") -> OperationRun:
    """Store an operation that is about to run."""
    name = type(action).__name__
    stored = name if name in STORED_ACTIONS else ""
    parameters = action_parameters(action) if stored else {}
    begun = app.store.begin_operation(
        harmless(title), *actor, action=stored, parameters=parameters, back=harmless(back)
    )
    return OperationRun(app, begun, action)


def continue_operation(app: App, id: str) -> OperationRun:
    """Return the next run of an operation that was interrupted, was stopped or has failed."""
    operation = find_operation(app, id)
    action = read_action(operation.action, operation.parameters) if operation.action else None
    continued = app.store.continue_operation(operation.id) if action is not None else None
    if action is None or continued is None:
        reason = "it cannot be run again" if action is None else f"it is {find_operation(app, id).status}"
        raise NotPossible(f"{one_line(operation.title, 80)} cannot be continued: {reason}")
    return OperationRun(app, continued, action)


def find_operation(app: App, id: str) -> Operation:
    found = app.store.operation(id) if id.isalnum() else None
    if found is None:
        kept = "operations are kept for 30 days, and `onward actions` lists what was changed"
        raise NotFound(f"there is no operation {one_line(id, 60)!r}, or no longer: {kept}")
    return found


class OperationRun(ActionProgress):
    """One run of an operation. A thread of its own saves the progress while the action runs."""

    def __init__(self, app: App, operation: Operation, action: Action) -> None:
        super().__init__()
        self.id, self.title = operation.id, operation.title
        self.cursor, self.began_at = operation.cursor, operation.began_at
        self.continued = operation.run > 1
        self._app, self._action = app, action
        self._run, self._done_before = operation.run, operation.done
        self._interrupted = False
        self._stop_event, self._end_event = threading.Event(), threading.Event()
        self.on_update: Callable[[ActionProgress], None] = lambda progress: None  # shows the progress to a person

    def stop(self, *, interrupted: bool = False) -> None:
        """Ask the action to stop; `interrupted`: because this process ends, not because a person wants it."""
        self._interrupted = self._interrupted or interrupted
        self.stopping = True
        self._stop_event.set()

    def join(self, timeout: float | None = None) -> bool:
        """Wait for its end; return whether it has ended."""
        return self._end_event.wait(timeout)

    def sleep(self, seconds: float) -> None:
        if self._stop_event.wait(seconds):
            raise ActionStopped

    def show(self) -> None:
        self.on_update(self)

    def checkpoint(self, cursor: Any) -> None:
        super().checkpoint(cursor)
        if not self._app.store.checkpoint_operation(self.id, self._run, cursor):
            raise ActionStopped(TAKEN_OVER)

    def execute(self, actor: Actor) -> ActionOutcome:
        """Run the action, and store its result or what went wrong."""
        saver = threading.Thread(target=self._save_progress, name="onward-operation-progress", daemon=True)
        saver.start()
        try:
            outcome = self._action.run(self._app, self, actor)
            self._end(outcome)
        except Exception as error:
            problem = redact_error(f"{type(error).__name__}: {error}")
            log.error("%s failed: %s", one_line(self.title, 200), problem)
            self._store_end(OperationStatus.FAILED, self.text, problem)
            raise
        finally:
            self._end_event.set()
        return outcome

    def _end(self, outcome: ActionOutcome) -> None:
        status, problem = OperationStatus.DONE, ""
        text = "\n".join(sentence.text for sentence in outcome.sentences)
        if outcome.error is not None:
            status = OperationStatus.FAILED
            problem = redact_error(f"{type(outcome.error).__name__}: {outcome.error}")
        elif outcome.stopped and self._interrupted:
            status = OperationStatus.INTERRUPTED
        elif outcome.stopped:
            status, problem = OperationStatus.STOPPED, STOPPED
        elif outcome.completion is Completion.FAILED:
            status, problem = OperationStatus.FAILED, text
        self._store_end(status, text, problem)

    def _counts(self) -> tuple[int, int]:
        """Return how many things are done in all runs, and how many there are."""
        return self._done_before + self.done, self._done_before + self.total if self.total else 0

    def _store_end(self, status: OperationStatus, text: str, problem: str) -> None:
        done, total = self._counts()
        text, problem = harmless(text)[:MAX_TEXT], harmless(problem)[:MAX_TEXT]
        try:
            self._app.store.end_operation(
                self.id, self._run, status, done=done, total=total, text=text, problem=problem
            )
        except Exception as error:  # its lease lapses: it is then listed as interrupted
            reason = redact_error(f"{type(error).__name__}: {error}")
            log.error("the end of %s was not stored: %s", one_line(self.title, 200), reason)

    def save(self) -> None:
        """Save the progress, and stop if a person has asked for it or another process has taken over."""
        text = harmless(self.text)[:MAX_TEXT]
        stopping = self._app.store.save_operation(self.id, self._run, *self._counts(), text)
        if stopping is None or stopping:
            self.stop(interrupted=stopping is None)

    def _save_progress(self) -> None:
        while not self._end_event.wait(SAVE_SECONDS):
            try:
                self.save()
            except Exception as error:  # the next save may succeed
                log.debug("progress was not saved: %s", redact_error(f"{type(error).__name__}: {error}"))
