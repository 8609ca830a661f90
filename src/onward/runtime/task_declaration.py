"""Declaring tasks: `app.task`."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from datetime import timedelta
from functools import partial
from typing import TYPE_CHECKING, Any, ParamSpec, Protocol, TypeVar, Unpack, overload

from onward.runtime import schedules
from onward.runtime.handler_types import CallOptions
from onward.runtime.registry import PeriodicJob
from onward.runtime.schedules import Missed
from onward.runtime.service import RegistrationError
from onward.runtime.task import KEEP_SECONDS, Task

if TYPE_CHECKING:
    from onward.runtime.document_access import DocumentAccess

P = ParamSpec("P")
R = TypeVar("R")

REMOVE_SECONDS = 3_600.0  # How often calls that are old are removed


class TaskDeclarer:
    """Declares the tasks of an app: `@app.task`, or `@app.task(name=…, keep=…, needs=…)`."""

    def __init__(self, access: DocumentAccess, service: Callable[..., Callable[[Any], Any]]) -> None:
        self._registry = access.registry
        self._service = service
        self._access = access
        self.tasks: list[Task[..., Any, Any]] = []

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...

    @overload
    def __call__(
        self,
        *,
        name: str | None = None,
        keep: float | timedelta | None = KEEP_SECONDS,
        schedule: str | timedelta | None = None,
        timezone: str = "UTC",
        missed: Missed = "last",
        **options: Unpack[CallOptions],
    ) -> TaskDecorator: ...

    def __call__(  # type: ignore[misc]  # mypy does not match an unpacked TypedDict with these keywords
        self,
        function: Callable[..., Any] | None = None,
        /,
        *,
        name: str | None = None,
        keep: float | timedelta | None = KEEP_SECONDS,
        schedule: str | timedelta | None = None,
        timezone: str = "UTC",
        missed: Missed = "last",
        **options: Unpack[CallOptions],
    ) -> Any:
        """Declare a function as a task, whose calls workers run: `function.delay(…)` stores one.

        `name` is that of the function by default; `keep` says how long calls that are done are kept (seconds or a
        `timedelta`; None: for ever). The other options are those of `app.service`; `key` is called with the
        arguments of the call.

        With a `schedule`, a cron expression in a `timezone` or a `timedelta`, it is called once at each tick; a
        parameter `tick` gets its time. `missed` says which ticks are made up for after a time without processes.
        """

        def declare(function: Callable[..., Any]) -> Task[..., Any, Any]:
            called = name or str(getattr(function, "__name__", ""))
            task: Task[..., Any, Any] = Task(function, called, self._access, _keep_seconds(called, keep))
            due = None
            if schedule is not None:
                publish = task.publish_ticks
                due = schedules.new_schedule(self._registry, called, schedule, timezone, missed, publish)
                task.check_scheduled()
            given: dict[str, Any] = {**options}
            if (key := given.get("key")) is not None:
                task.check_key(key)
                given["key"] = partial(task.key_of, key)
            self._service(called, on=task.event, finishes=task.call_document, **given)(task.handler())
            if due is not None:  # last: a task that is refused has no schedule
                self._registry.add_schedule(due)
            if not self.tasks:
                job = PeriodicJob("remove old calls", REMOVE_SECONDS, self.remove_old_calls, in_simulation=True)
                self._registry.add_periodic(job)
            self.tasks.append(task)
            return task

        return declare if function is None else declare(function)

    def remove_old_calls(self, stopped: Callable[[], bool]) -> int:
        """Remove old calls of all tasks; return how many."""
        return sum(task.remove_old_calls(self._access.store, stopped) for task in self.tasks)


class TaskDecorator(Protocol):
    """What `app.task(…)` returns: it makes a task of the function below it."""

    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> Task[P, Coroutine[Any, Any, R], R]: ...

    @overload
    def __call__(self, function: Callable[P, R], /) -> Task[P, R, R]: ...


def _keep_seconds(task: str, keep: float | timedelta | None) -> float | None:
    seconds: object = keep.total_seconds() if isinstance(keep, timedelta) else keep
    if seconds is None:
        return None
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise RegistrationError(
            f"task {task!r} is declared with keep={keep!r:.100}; give seconds, a timedelta, or None to keep its "
            "calls for ever"
        )
    return seconds
