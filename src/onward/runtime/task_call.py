"""A stored call of a task: where it stands, and what it returned."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from onward.model.documents import DocumentState, Status
from onward.model.failures import Outcome, outcomes
from onward.retry import OnwardError

if TYPE_CHECKING:
    from onward.runtime.task import Task

R = TypeVar("R")  # What a call returns

FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.01, 0.5  # Of a caller that waits for a result


class CallFailed(OnwardError):
    """A call of a task was given up: its last error, and where to look.

    `state` is what the ledger knows of the call: status, rounds, history.
    """

    def __init__(self, message: str, state: DocumentState | None = None) -> None:
        super().__init__(message)
        self.state = state


class CallNotFound(OnwardError, LookupError):
    """There is no call with this id, or not any more."""


@dataclass(frozen=True, slots=True)
class TaskCall(Generic[R]):
    """One call of a task: where it stands, and what it returned.

    call = add.delay(2, 3)
    call.result(timeout=30)      # or `await call`
    """

    task: Task[..., Any, R]
    id: str

    @property
    def document(self) -> str:
        """The collection and id of the call's document, as commands take them."""
        return f"{self.task.call_document.collection}/{self.id}"

    def state(self) -> DocumentState:
        """Return what the ledger knows of the call: status, rounds, errors."""
        found = self.task.access.state(self.task.call_document, self.id)
        if found is None:
            kept = self.task.keep_seconds
            days = "for ever" if kept is None else f"{kept / 86_400:g} days"
            raise CallNotFound(
                f"there is no call {self.id} of task {self.task.name!r} (any more); calls that are done are "
                f"kept {days}"
            )
        return found

    def cancel(self) -> bool:
        """Cancel the call if it has not ended; return whether it was cancelled. See `App.cancel`."""
        self.state()  # an unknown call raises
        return self.task.access.cancel(self.task.call_document, self.id)

    def done(self) -> bool:
        """Return whether the call has ended: it is done, or was given up."""
        return self.state().final

    def result(self, timeout: float | None = None) -> R:
        """Wait for the call to end, at most `timeout` seconds, and return what the function returned.

        Raises `CallFailed` if it was given up, `TimeoutError` if it has not ended in time.
        """
        for pause in self._pauses(timeout):
            if (state := self.state()).final:
                return self._result(state)
            if pause is None:
                raise self._timeout(state, timeout)
            time.sleep(pause)
        raise AssertionError("the loop returns or raises")

    async def aresult(self) -> R:
        """Wait as `result` does, without blocking the event loop; `asyncio.timeout` limits it."""
        for pause in self._pauses(None):
            if (state := await asyncio.to_thread(self.state)).final:
                return await asyncio.to_thread(self._result, state)
            await asyncio.sleep(pause or 0.0)
        raise AssertionError("the loop returns or raises")

    def __await__(self) -> Generator[Any, None, R]:
        return self.aresult().__await__()

    @staticmethod
    def _pauses(timeout: float | None) -> Iterator[float | None]:
        """Yield how long to wait before each further look; None: the time is up."""
        ends = None if timeout is None else time.monotonic() + timeout
        pause = FIRST_PAUSE_SECONDS
        while True:
            left = pause if ends is None else min(pause, ends - time.monotonic())
            yield left if left > 0 else None
            pause = min(pause * 2, LONGEST_PAUSE_SECONDS)

    def _result(self, state: DocumentState) -> R:
        if state.status == Status.DISCARDED:
            raise CallFailed(
                f"{self} {_ending(state)}; see it with: onward show {self.document}, and run it all the same "
                f"with: onward retry {self.document}",
                state,
            )
        if state.status != Status.PROCESSED:
            raise CallFailed(
                f"{self} was given up ({state.status}) in round {state.attempt_count}: {_last_error(state)}; "
                f"see it with: onward show {self.document}, and try it again with: onward retry {self.document}",
                state,
            )
        stored = self.task.access.get(self.task.result_document, self.id)
        return cast(R, None if stored is None else stored.value)  # type: ignore[attr-defined]

    def _timeout(self, state: DocumentState, timeout: float | None) -> TimeoutError:
        problem = f", its last error: {_last_error(state)}" if state.last_error else ""
        return TimeoutError(
            f"{self} has not ended within {timeout:g} s: it is {state.status}, in round "
            f"{state.attempt_count}{problem}; see it with: onward show {self.document}, "
            "and check that a worker runs: onward workers"
        )

    def __str__(self) -> str:
        return f"call {self.id} of task {self.task.name!r}"


def _ending(state: DocumentState) -> str:
    """Return why a call was discarded."""
    last = (outcomes(state.attempts) or [{}])[-1]
    if last.get("outcome") == Outcome.EXPIRED:
        return "expired: its deadline passed before it was begun"
    by = f" by {last['by']}" if last.get("by") else ""
    return f"was cancelled{by}"


def _last_error(state: DocumentState) -> str:
    error = state.last_error or {}
    return f"{error.get('error_type') or 'no error'}: {error.get('message', '')}".removesuffix(": ")
