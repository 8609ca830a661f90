"""Everything that an app has declared."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.model.dependency_limits import DependencyLimit
from onward.model.events import Event
from onward.model.ledger import Subscription
from onward.runtime.dependency import Dependency
from onward.runtime.middleware import Middleware
from onward.runtime.service import RegistrationError, Service

if TYPE_CHECKING:
    from onward.runtime.schedules import DeclaredSchedule


@dataclass(frozen=True, slots=True)
class PeriodicJob:
    """A function that is run once in an interval, whichever process does it."""

    name: str
    every_seconds: float
    run: Callable[[Callable[[], bool]], object]
    """It is given a function that returns True when it should end early."""
    in_simulation: bool = False  # It takes the time from the store alone, so that a simulation runs it, too
    due: Callable[[], float | None] | None = None
    """Returns when it is due next, by the store's clock: then any process runs it, or several at once."""


@dataclass(slots=True)
class Registry:
    """Everything an app has declared."""

    services: dict[str, Service] = field(default_factory=dict)
    dependencies: dict[str, Dependency] = field(default_factory=dict)
    periodic: dict[str, PeriodicJob] = field(default_factory=dict)
    background: dict[str, Callable[[Callable[[], bool]], object]] = field(default_factory=dict)
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

    def names_of(self, needs: str | Dependency | Sequence[str | Dependency], service: str) -> tuple[str, ...]:
        """Return the names of what a service needs; a `Dependency` is declared when it is first used."""
        # Something else, given without type checks, is refused below.
        given = tuple(needs) if isinstance(needs, Iterable) and not isinstance(needs, str) else (needs,)
        for one in given:
            if not isinstance(one, str | Dependency):
                raise RegistrationError(
                    f"service {service!r} needs {one!r:.100}; give the name of a dependency or a Dependency"
                )
            if isinstance(one, Dependency) and self.dependencies.get(one.name, one) != one:
                raise RegistrationError(
                    f"service {service!r} needs {one!r:.200}, but the dependency is declared with other options: "
                    f"{self.dependencies[one.name]!r:.200}; declare it once, and use that object or its name"
                )
        for one in given:
            if isinstance(one, Dependency):
                self.dependencies[one.name] = one
        return tuple(dict.fromkeys(one if isinstance(one, str) else one.name for one in given))

    def limits_of(self, service: Service) -> tuple[DependencyLimit, ...]:
        """Return the limits that are declared for what a service needs."""
        known = [self.dependencies[name] for name in service.needs if name in self.dependencies]
        return tuple(one.limit() for one in known if one.rate is not None or one.concurrency is not None)

    def add_periodic(self, job: PeriodicJob) -> None:
        if job.name in self.periodic:
            raise RegistrationError(f"the periodic job {job.name!r} is declared twice; give one another name")
        if not 0 < job.every_seconds < math.inf:
            raise RegistrationError(
                f"the periodic job {job.name!r} is declared with every={job.every_seconds!r}; give a number of "
                "seconds above 0"
            )
        self.periodic[job.name] = job

    def add_background(self, name: str, run: Callable[[Callable[[], bool]], object]) -> None:
        if name in self.background:
            raise RegistrationError(f"the background job {name!r} is declared twice; give one another name")
        self.background[name] = run

    def check_schedule(self, name: str) -> None:
        if name in self.schedules:
            raise RegistrationError(f"schedule {name!r} is declared twice; give one another name")

    def add_schedule(self, schedule: DeclaredSchedule) -> None:
        self.check_schedule(schedule.name)
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
