"""Services and dependencies, as an app registers them."""

from __future__ import annotations

import inspect
import math
import re
import threading
from collections.abc import Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from onward.ledger.reader import Reader
from onward.model.documents import Document, DocumentState
from onward.model.events import Event
from onward.model.failures import Failure
from onward.model.ledger import Subscription
from onward.retry import Classified, OnwardError, RetryPolicy, classify
from onward.runtime.handler_types import Handler, Requeue, wrong_annotation

if TYPE_CHECKING:
    from onward.runtime.schedules import DeclaredSchedule

HEALTH_SECONDS = 10.0  # how long a health call may take; after it, the dependency counts as down
SHARED_SECONDS = 1.0  # how long the result of a health call is reused in the same process


MAX_BATCH = 500


class RegistrationError(OnwardError, ValueError):
    """A service or dependency was declared in a way that cannot work."""


@dataclass(frozen=True, slots=True)
class Service:
    """A named consumer of one event type."""

    name: str
    handler: Handler
    on: type[Event]
    finishes: type[Document] | None = None
    needs: tuple[str, ...] = ()
    batch: int | Callable[[], int] | None = None
    """Documents of one call; asked for at each delivery, if it is a function."""
    time_limit: float | None = None
    concurrency: int | Callable[[], int] | None = None
    """Calls at once in a process; asked for when a worker starts, if it is a function."""
    background: bool = False
    """Its events are claimed only while the process has nothing else to do."""
    policy: RetryPolicy | None = None
    not_ready: RetryPolicy | None = None
    rung: Literal["transient", "fetching"] = "transient"
    """The rung of the ladder for transient failures, if the service has no policy of its own."""
    classify: Callable[[BaseException], Classified] = classify
    failed_queue: str = ""
    sets_aside: bool = False
    """Documents that failed after all tries join a failed batch instead of becoming dead letters."""
    notice: str = ""  # the type of the event that reports a round that was given up, such as `ParsingFailed`
    requeue: Requeue | None = None  # makes the events that put documents back, where `on.of(…)` cannot
    was: tuple[str, ...] = ()  # former names of the service, whose events it takes over

    def __post_init__(self) -> None:
        refuse, on, finishes, batch, limit = self._refuse, self.on, self.finishes, self.batch, self.time_limit
        refuse(not re.fullmatch(r"[a-z][a-z0-9_.-]*", self.name), "needs a name like 'chunking'")
        refuse(not _is_kind(on, Event), f"is declared with on={on!r:.100}; give a subclass of onward.Event")
        refuse(not all(self.needs), f"needs {self.needs!r:.100}; name dependencies, such as needs='website'")
        if finishes is None:
            refuse(batch is not None, "has a batch, but finishes nothing")
            refuse(self.sets_aside, "sets documents aside, but finishes none")
        else:
            declared = f"is declared with finishes={finishes!r:.100}"
            refuse(not _is_kind(finishes, Document), f"{declared}; give a subclass of onward.Document")
            refuse(
                on.field_naming(finishes.collection) is None,
                f"finishes {finishes.__name__}, but {on.__name__} names none: mark the field that holds their ids "
                f"with names({finishes.__name__})",
            )
        refuse(
            isinstance(batch, int) and not 1 <= batch <= MAX_BATCH,
            f"has batch={batch}; 1 to {MAX_BATCH} is allowed",
        )
        refuse(limit is not None and limit <= 0, f"has time_limit={limit}; it is a number of seconds above 0")
        few = isinstance(self.concurrency, int) and self.concurrency < 1
        refuse(few, f"has concurrency={self.concurrency}; at least 1 is allowed")
        refuse(not all(self.was), f"was {self.was!r:.100}; give its former name, such as was='splitting'")
        again = self.name in self.was
        refuse(again, f"is declared with was={self.name!r}; give its former name, not this one")
        refuse(not _takes_two(self.handler), "needs a handler of two parameters, such as (document, work)")
        if why := wrong_annotation(self.handler, finishes or on, batch=batch is not None):
            option = "finishes=" if finishes else "on="
            refuse(why, f"{why}; change the annotation, or {option}")

    def _refuse(self, wrong: object, why: str) -> None:
        if wrong:
            raise RegistrationError(f"service {self.name!r} {why}")

    def slots(self) -> int | None:
        """The number of calls that may run at once in a process, if the service sets it."""
        return max(1, self.concurrency()) if callable(self.concurrency) else self.concurrency

    def batch_size(self) -> int:
        """The number of documents that one call of the handler gets at most."""
        return min(MAX_BATCH, max(1, self.batch())) if callable(self.batch) else self.batch or 1

    @property
    def makes_events(self) -> bool:
        """Whether it can make the event of a document from the document's state."""
        others = (info for name, info in self.on.model_fields.items() if name != self.ids_field)
        return self.requeue is not None or not any(info.is_required() for info in others)

    def put_back(self, states: Sequence[DocumentState], store: Reader) -> Iterable[Event]:
        """Make the events that begin another round of documents; those it leaves out are not to be, just now."""
        if self.requeue is not None:
            return self.requeue(states, store)
        assert self.ids_field is not None, "only a service that finishes documents puts them back"
        many = self.on.model_fields[self.ids_field].annotation is not str
        ids = [one.id for one in states]
        return [self.on(**{self.ids_field: one}) for one in ([ids] if many else ids)]

    @property
    def is_async(self) -> bool:
        return inspect.iscoroutinefunction(self.handler)

    @property
    def ids_field(self) -> str | None:
        return self.on.field_naming(self.finishes.collection) if self.finishes else None

    def subscription(self) -> Subscription:
        return Subscription(
            service=self.name,
            event_type=self.on.event_type,
            finishes=self.finishes.collection if self.finishes else None,
            ids_field=self.ids_field,
            naming=tuple(self.on.naming),
            needs=self.needs,
            failed_queue=self.failed_queue or f"{self.name}.failed",
            version=self.on.version,
            was=self.was,
            round_rules=self.finishes.round_rules.to_json() if self.finishes else "",
        )

    def notice_type(self) -> str:
        words = re.split(r"[_.-]", self.name)
        return self.notice or "".join(word.capitalize() for word in words) + "Failed"


def _is_kind(given: object, kind: type) -> bool:
    return isinstance(given, type) and issubclass(given, kind) and given is not kind


def _takes_two(handler: Handler) -> bool:
    try:
        parameters = inspect.signature(handler).parameters.values()
    except (TypeError, ValueError):
        return False
    required = [one.kind for one in parameters if one.default is one.empty]
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return sum(kind in kinds for kind in required) == 2 and inspect.Parameter.KEYWORD_ONLY not in required


@dataclass(frozen=True, slots=True)
class Dependency:
    """Something outside that services need: an API, a model server. It may have a health call."""

    name: str
    health: Callable[[], bool | Awaitable[bool | None] | None] | None = None

    def problem(self) -> str:
        """Ask the health call and return what is wrong with the dependency; empty: nothing.

        It runs in a thread of its own: it may be a coroutine where a loop is running, and it may hang.
        """
        answers: list[str] = []
        asking = threading.Thread(target=lambda: answers.append(self._ask()), daemon=True)
        asking.start()
        asking.join(HEALTH_SECONDS)
        return answers[0] if answers else f"its health call did not answer within {HEALTH_SECONDS:g} s"

    def _ask(self) -> str:
        async def awaited(answer: Awaitable[bool | None]) -> bool | None:
            return await answer

        try:
            answer = self.health() if self.health is not None else None
            if inspect.isawaitable(answer):
                import asyncio  # not at the top: a command that only reads starts without it

                answer = asyncio.run(awaited(answer))
        except BaseException as error:  # whatever it raises, the dependency is not well
            return Failure.of(error, at=0.0, service=self.name).message or type(error).__name__
        return "its health call says no" if answer is False else ""


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """A function that is run once in an interval, whichever process does it."""

    name: str
    every_seconds: float
    run: Callable[[Callable[[], bool]], object]
    """It is given a function that returns True when it should end early."""
    in_simulation: bool = False  # It takes the time from the store alone, so that a simulation runs it, too


@dataclass(frozen=True, slots=True)
class Middleware:
    """A generator function that runs around the calls of handlers: up to its `yield` before, the rest after."""

    function: Callable[..., Any]
    services: tuple[str, ...] = ()  # Those whose calls it runs around; empty: all

    def __post_init__(self) -> None:
        is_generator = inspect.isgeneratorfunction(self.function) or self.is_async
        if not is_generator or len(inspect.signature(self.function).parameters) != 1:
            raise RegistrationError(
                f"the middleware {self.name!r} must be a function of one parameter, `work`, with one yield: "
                "what is before the yield runs before the handler, what is after it afterwards"
            )

    @property
    def name(self) -> str:
        return getattr(self.function, "__name__", type(self.function).__name__)

    @property
    def is_async(self) -> bool:
        return inspect.isasyncgenfunction(self.function)

    def applies_to(self, service: str) -> bool:
        return not self.services or service in self.services

    def check(self, service: Service) -> None:
        """Raise if it cannot run around the calls of this service."""
        if self.is_async and self.applies_to(service.name) and not service.is_async:
            raise RegistrationError(
                f"the middleware {self.name!r} is `async def`, but the handler of service {service.name!r} is "
                "`def` and runs in a thread: write the middleware as `def`, or name the services that it is for, "
                "as in @app.middleware(services=…)"
            )


@dataclass(slots=True)
class Registry:
    """Everything an app has declared."""

    services: dict[str, Service] = field(default_factory=dict)
    dependencies: dict[str, Dependency] = field(default_factory=dict)
    periodic: dict[str, PeriodicJob] = field(default_factory=dict)
    schedules: dict[str, DeclaredSchedule] = field(default_factory=dict)
    middleware: list[Middleware] = field(default_factory=list)

    def add(self, service: Service) -> None:
        if service.name in self.services:
            raise RegistrationError(f"service {service.name!r} is declared twice; give one another name")
        for other in self.services.values():
            for new, old in ((service, other), (other, service)):
                if old.name in new.was:
                    raise RegistrationError(
                        f"service {new.name!r} is declared with was={old.name!r}, which is a service of this app; "
                        "was= names one that was renamed, and is not declared any more"
                    )
            same = other.finishes is not None and service.finishes is other.finishes
            mine, others = service.subscription(), other.subscription()
            if mine.finishes and mine.finishes == others.finishes and mine.round_rules != others.round_rules:
                raise RegistrationError(
                    f"services {other.name!r} and {service.name!r} both finish {mine.finishes!r}; their classes "
                    "declare different max_rounds, round_backoff or stuck_after; declare the same in both"
                )
            # Two finishers of one collection on one event would begin two rounds for each document.
            if same and other.on is service.on:
                finished = f"{service.finishes and service.finishes.__name__} on {service.on.__name__}"
                raise RegistrationError(
                    f"services {other.name!r} and {service.name!r} both finish {finished}; "
                    "a document is one service's responsibility"
                )
        for one in self.middleware:
            one.check(service)
        self.services[service.name] = service

    def add_middleware(self, middleware: Middleware) -> None:
        for service in self.services.values():
            middleware.check(service)
        self.middleware.append(middleware)

    def check_middleware(self) -> None:
        """Raise if middleware is for a service that is not declared, when all of them should be."""
        for one in self.middleware:
            for name in one.services:
                if name not in self.services:
                    known = ", ".join(sorted(self.services)) or "none"
                    raise RegistrationError(
                        f"the middleware {one.name!r} is for the service {name!r}, which is not declared; there "
                        f"are: {known}"
                    )

    def add_dependency(self, dependency: Dependency) -> None:
        if dependency.name in self.dependencies:
            raise RegistrationError(f"dependency {dependency.name!r} is declared twice")
        self.dependencies[dependency.name] = dependency

    def add_periodic(self, job: PeriodicJob) -> None:
        if job.name in self.periodic:
            raise RegistrationError(f"the periodic job {job.name!r} is declared twice; give one another name")
        if not 0 < job.every_seconds < math.inf:
            raise RegistrationError(
                f"the periodic job {job.name!r} is declared with every={job.every_seconds!r}; give a number of "
                "seconds above 0"
            )
        self.periodic[job.name] = job

    def add_schedule(self, schedule: DeclaredSchedule) -> None:
        if schedule.name in self.schedules:
            raise RegistrationError(f"schedule {schedule.name!r} is declared twice; give one another name")
        self.schedules[schedule.name] = schedule

    def subscriptions(self) -> list[Subscription]:
        return [service.subscription() for service in self.services.values()]

    def select(self, names: Sequence[str] | None) -> list[Service]:
        for name in names or ():
            if name not in self.services:
                known = ", ".join(sorted(self.services)) or "none"
                raise RegistrationError(f"there is no service {name!r}; there are: {known}")
        return [self.services[name] for name in names] if names else list(self.services.values())

    def with_health_call(self) -> tuple[str, ...]:
        return tuple(one.name for one in self.dependencies.values() if one.health is not None)

    def events(self) -> Iterator[type[Event]]:
        yield from dict.fromkeys(service.on for service in self.services.values())


class HealthCalls:
    """Asks the health calls of dependencies, one at a time for each; callable from any thread."""

    def __init__(self, registry: Registry, now: Callable[[], float]) -> None:
        self._registry = registry
        self._now = now
        self._lock = threading.Lock()
        self._asking: dict[str, threading.Lock] = {}  # a second caller waits here for the first
        self._problems: dict[str, tuple[str, float]] = {}  # the last result of each, and when it was asked

    def has(self, name: str) -> bool:
        known = self._registry.dependencies.get(name)
        return known is not None and known.health is not None

    def ask(self, name: str) -> str | None:
        """Return what is wrong with a dependency, empty if nothing is; None if it has no health call.

        It may take `HEALTH_SECONDS`.
        """
        if not self.has(name):
            return None
        with self._lock:
            asking = self._asking.setdefault(name, threading.Lock())
        with asking:
            known = self._problems.get(name)
            if known is None or not 0 <= self._now() - known[1] < SHARED_SECONDS:
                problem = self._registry.dependencies[name].problem()
                known = self._problems[name] = (problem, self._now())
            return known[0]
