"""What an app declares: services, what they need, tasks, schedules, periodic jobs, middleware, observers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import datetime, timedelta
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeVar, Unpack, overload

from onward.model.documents import Document
from onward.model.events import Event
from onward.runtime.dependency import Dependency
from onward.runtime.document_access import DocumentAccess
from onward.runtime.handler_types import Declares, R, ServiceOptions
from onward.runtime.middleware import Middleware
from onward.runtime.outcomes import Hook, Hooks
from onward.runtime.registry import PeriodicJob
from onward.runtime.service import Service

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
        `needs` has dependencies, by name or as `Dependency`: while one is down, or its rate or concurrency is
        used up, the service's events wait and lose nothing.
        `time_limit` is that of one call in seconds, `concurrency` the number of calls at once in a process.
        A `background` service gets events only while its process has none for the others.
        With `sets_aside`, a document that fails every try joins the failed batch of its source.
        `policy` and `not_ready` replace the ladder's rungs 2 and 1, `rung="fetching"` takes its shorter
        waits, `classify` replaces the usual classification of errors. `requeue` makes the events that put
        documents back from their states, where the event has more fields than the ids. `was` names a
        service that this one replaces: its events, dead letters and failed batches become this one's.
        With `key`, a function of the document (without `finishes`, of the event) that returns a str, an int or
        None, those with the same key are handled one at a time in the whole fleet; with `ordered=True` in the
        order of publication.
        `failed_queue` and `notice` are the names of its failed queue and of the event when a round is given up.
        """
        given: dict[str, Any] = {**options}
        was = given.get("was", ())
        given["was"] = (was,) if isinstance(was, str) else tuple(was)
        given["needs"] = self.registry.names_of(given.get("needs", ()), name)

        def declare(handler: H) -> H:
            service = Service(name=name, handler=handler, on=on, finishes=finishes, batch=batch, **given)
            self.registry.add(service)
            if self._store is not None:
                self._store.subscribe([service.subscription()])
            return handler

        return declare

    def dependency(
        self,
        name: str,
        *,
        health: Callable[[], bool | Awaitable[bool | None] | None] | None = None,
        rate: str | None = None,
        concurrency: int | None = None,
    ) -> Dependency:
        """Declare something outside that services need, and return it: `needs=` takes it, or its name.

        The options are those of `Dependency`, which services of several apps may use.
        """
        dependency = Dependency(name, health, rate, concurrency)
        self.registry.add_dependency(dependency)
        return dependency

    def periodic(
        self, name: str, *, every: float, due: Callable[[], float | None] | None = None
    ) -> Callable[[H], H]:
        """Declare a function that is run once in `every` seconds, by one of the app's processes.

        With `due`, which returns a time by the store's clock or None, it is run when that time has come, by any
        process or several at once; `every` is then how often `due` is called at least.

        Workers, `onward serve` and `onward retry-job` run it in a background thread. It is given a function that
        returns True when the process ends: then it should return, and is begun again by the next process.
        """

        def declare(run: H) -> H:
            self.registry.add_periodic(PeriodicJob(name, float(every), run, due=due))
            return run

        return declare

    def background(self, name: str) -> Callable[[H], H]:
        """Declare a function that runs in a thread beside the workers of each machine, as long as they run.

        It is given a function that returns True when the process ends: then it must return. If it raises or
        returns before, it is called again after a minute.
        """

        def declare(run: H) -> H:
            self.registry.add_background(name, run)
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
        made = schedules.new_schedule(self.registry, name, given, timezone, missed, publish)
        self.registry.add_schedule(made)

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
