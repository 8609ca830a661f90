"""Dependencies of services, and their health calls."""

from __future__ import annotations

import inspect
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.model.dependency_limits import MAX_COUNT, DependencyLimit, Rate
from onward.model.failures import Failure
from onward.runtime.service import RegistrationError

if TYPE_CHECKING:
    from onward.runtime.registry import Registry

HEALTH_SECONDS = 10.0  # how long a health call may take; after it, the dependency counts as down
SHARED_SECONDS = 1.0  # how long the result of a health call is reused in the same process


@dataclass(frozen=True, slots=True)
class Dependency:
    """An external system that services need, such as an API: `needs=Dependency("openai", rate="60/min")`.

    `rate` limits how many calls of handlers that need it begin in any period of this length, and `concurrency` how
    many are under way at once, in the whole fleet. What has to wait is not claimed, and costs nothing. `health`
    is a function that returns False or raises when the dependency is down: it is called after a failure and
    during an outage.
    """

    name: str
    health: Callable[[], bool | Awaitable[bool | None] | None] | None = None
    rate: str | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        name: object = self.name  # A program without type checks may give anything
        if not (isinstance(name, str) and name.strip()):
            raise RegistrationError(f"a dependency is declared with name={self.name!r:.100}; give a name")
        self.limit()
        number: object = self.concurrency
        if number is None:
            return
        if not isinstance(number, int) or isinstance(number, bool) or not 1 <= number <= MAX_COUNT:
            raise RegistrationError(
                f"dependency {self.name!r} has concurrency={number!r:.100}; a whole number from 1 to "
                f"{MAX_COUNT:,} is allowed"
            )

    def limit(self) -> DependencyLimit:
        """Return its limits, as a claim keeps them."""
        try:
            rate = None if self.rate is None else Rate.parse(self.rate)
        except ValueError as error:
            raise RegistrationError(f"dependency {self.name!r} has rate={self.rate!r:.100}; {error}") from None
        return DependencyLimit(self.name, self.rate, rate, self.concurrency)

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
