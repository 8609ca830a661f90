"""What an app declares: services, what they need, tasks, schedules, periodic jobs, middleware, observers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from onward.model.documents import Document
from onward.model.events import Event
from onward.runtime.document_access import DocumentAccess
from onward.runtime.handler_types import Declares, R, ServiceOptions
from onward.runtime.outcomes import Hook, Hooks
from onward.runtime.service import Dependency, Middleware, PeriodicJob, Service

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.middleware import MiddlewareFunction
    from onward.runtime.schedules import Missed
    from onward.runtime.task_declaration import TaskDeclarer

H = TypeVar("H", bound=Callable[..., Any])
D = TypeVar("D", bound=Document)
E = TypeVar("E", bound=Event)
M = TypeVar("M", bound="MiddlewareFunction")


class Declarations(DocumentAccess):
    """Declares services and all that belongs to them, with decorators of the app."""

    hooks: Hooks
    _store: Store | None  # Once it is open, a new service subscribes at once

    # The third is for a batch that may be None, whose handler takes one document and a list.
    @overload
    def service(  # type: ignore[overload-overlap]
        self,
        name: str,
        *,
        on: type[Event],
        finishes: type[D],
        batch: None = None,
        **options: Unpack[ServiceOptions],
    ) -> Declares[D, R]: ...

    @overload
    def service(  # type: ignore[overload-overlap]
        self,
        name: str,
        *,
        on: type[Event],
        finishes: type[D],
        batch: int | Callable[[], int],
        **options: Unpack[ServiceOptions],
    ) -> Declares[list[D], R]: ...

    @overload
    def service(
        self,
        name: str,
        *,
        on: type[Event],
        finishes: type[D],
        batch: int | Callable[[], int] | None,
        **options: Unpack[ServiceOptions],
    ) -> Declares[D | list[D], R]: ...

    @overload
    def service(
        self,
        name: str,
        *,
        on: type[E],
        finishes: None = None,
        batch: None = None,
        **options: Unpack[ServiceOptions],
    ) -> Declares[E, R]: ...

    def service(
        self,
        name: str,
        *,
        on: type[Event],
        finishes: type[Document] | None = None,
        batch: int | Callable[[], int] | None = None,
        **options: Unpack[ServiceOptions],
    ) -> Callable[[H], H]:
        """Declare a service: the decorated handler is run for each document that an event names.

        A handler of a service that `finishes` a collection gets one document and a `Work`, or with
        `batch=64` up to 64 documents; returning finishes them. Without `finishes` it gets the
        event and a `Work`. A `def` handler runs in a thread, an `async def` handler on the loop.
        An annotation that does not fit is an error of type checkers, and is refused here.

        Options:
        `needs` names dependencies: while one is down, the service's events wait and lose nothing.
        `time_limit` is that of one call in seconds, `concurrency` the number of calls at once in a process.
        A `background` service gets events only while its process has none for the others.
        With `sets_aside`, a document that fails every try joins the failed batch of its source.
        `policy` and `not_ready` replace the ladder's rungs 2 and 1, `rung="fetching"` takes its shorter
        waits, `classify` replaces the usual classification of errors. `requeue` makes the events that put
        documents back from their states, where the event has more fields than the ids. `was` names a
        service that this one replaces: its events, dead letters and failed batches become this one's.
        `failed_queue` and `notice` are the names of its failed queue and of the event when a round is given up.
        """
        given: dict[str, Any] = {**options}
        for one in ("needs", "was"):
            names = given.get(one, ())
            given[one] = (names,) if isinstance(names, str) else tuple(names)

        def declare(handler: H) -> H:
            service = Service(name=name, handler=handler, on=on, finishes=finishes, batch=batch, **given)
            self.registry.add(service)
            if self._store is not None:
                self._store.subscribe([service.subscription()])
            return handler

        return declare

    def dependency(
        self, name: str, *, health: Callable[[], bool | Awaitable[bool | None] | None] | None = None
    ) -> None:
        """Declare something outside that services need, with a health call if it has one.

        It returns False or raises when the dependency is down, and is called after a failure and during an outage.
        """
        self.registry.add_dependency(Dependency(name, health))

    def periodic(self, name: str, *, every: float) -> Callable[[H], H]:
        """Declare a function that is run once in `every` seconds, by one of the app's processes.

        Workers, `onward serve` and `onward retry-job` run it in a background thread. It is given a function that
        returns True when the process ends: then it should return, and is begun again by the next process.
        """

        def declare(run: H) -> H:
            self.registry.add_periodic(PeriodicJob(name, float(every), run))
            return run

        return declare

    @cached_property
    def task(self) -> TaskDeclarer:
        """Declare a function as a task: its calls are stored, retried and run by workers.

            @app.task
            def send_welcome(address: str) -> None: ...

            send_welcome.delay("ada@example.org")

        `@app.task(name=…, keep=…, needs=…)` takes the options of a service, and how long calls are kept.
        With `schedule="0 7 * * *"` or `schedule=timedelta(minutes=15)` it is called by itself, once at each tick.
        """
        from onward.runtime.task_declaration import TaskDeclarer  # not at the top: many apps have none

        return TaskDeclarer(self, self.service)

    def schedule(
        self,
        name: str,
        *,
        event: Callable[[datetime], Event | Iterable[Event] | None],
        cron: str | None = None,
        every: timedelta | None = None,
        timezone: str = "UTC",
        missed: Missed = "last",
    ) -> None:
        """Publish an event at each tick of a cron expression or interval, once, however many processes run.

        `event` makes it from the time of the tick, in the time zone. `missed` says which ticks are made up for
        after a time without processes: the `"last"`, `"all"` or `"none"`.
        """
        from onward.runtime import schedules  # not at the top: many apps have none

        given = schedules.schedule_of(cron, every, name)
        publish = partial(schedules.publish_events, event)
        schedules.declare(self.registry, name, given, timezone, missed, publish)

    @overload
    def middleware(self, function: M) -> M: ...

    @overload
    def middleware(self, *, services: str | Sequence[str]) -> Callable[[M], M]: ...

    def middleware(self, function: MiddlewareFunction | None = None, *, services: str | Sequence[str] = ()) -> Any:
        """Declare a function that runs around each call of a handler, of all services or of these.

            @app.middleware
            def timed(work):
                began = time.monotonic()
                yield
                log.info("%s took %s s", work.service, time.monotonic() - began)

        It is given the `Work` of the handler (`work.service`, `work.documents`, `work.event`), and runs in the
        same thread or task. The handler's error is raised at the `yield`. What it raises itself is the handler's
        failure; it cannot hide one. Several are nested, the first one outermost. An `async def` runs around
        `async def` handlers only.
        """
        names = (services,) if isinstance(services, str) else tuple(services)

        def declare(function: M) -> M:
            self.registry.add_middleware(Middleware(function, names))
            return function

        return declare if function is None else declare(function)

    def observe(self, hook: Hook) -> None:
        """Call an observer with every outcome of deliveries in this process, after its commit."""
        self.hooks.observers.append(hook)
