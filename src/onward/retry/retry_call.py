"""Retry a function or a block of code in place."""

from __future__ import annotations

import asyncio
import functools
import inspect
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from random import Random
from types import TracebackType
from typing import Any, ParamSpec, TypeVar, cast

from onward.retry.classify import Classifier, classify
from onward.retry.ladder import Ladder
from onward.retry.policy import GiveUp, RetryPolicy
from onward.retry.redact import redact_error

P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("onward.retry")
_TRANSIENT = Ladder().transient
_RANDOM = Random()


class Retrying:
    """Retries transient errors as `policy` says; raises permanent ones at once.

    Decorate a `def` or `async def` with it, or loop over it:

        for attempt in retrying(policy):      # async for, in a coroutine
            with attempt:
                fetch()

    In the end the last original error is raised, with a note on the tries, the time and the reason. `on`
    classifies errors. `clock` and `sleep` replace time for tests; `sleep` may return an awaitable where the
    retried function is async.
    """

    __slots__ = ("_clock", "_on", "_policy", "_random", "_sleep")

    def __init__(
        self,
        policy: RetryPolicy = _TRANSIENT,
        *,
        on: Classifier = classify,
        clock: Callable[[], float] | None = None,
        sleep: Callable[[float], object] | None = None,
        random: Random | None = None,
    ) -> None:
        self._policy = policy
        self._on = on
        self._clock = clock or time.monotonic
        self._sleep = sleep
        self._random = random or _RANDOM

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the function, retried."""
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError(
                f"retrying cannot decorate the generator {function.__qualname__!r}, whose body runs later: "
                "retry inside it, with `for attempt in retrying(…)`"
            )
        call = getattr(function, "__call__", None)  # noqa: B004 - the method is needed, not whether there is one
        if inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(call):
            # The two casts state what was just checked: T is an awaitable here.
            return cast(Callable[P, T], self._retried_async(cast(Callable[P, Awaitable[Any]], function)))
        return self._retried(function)

    def _retried(self, function: Callable[P, T]) -> Callable[P, T]:
        clock, wait_after = self._clock, self._wait_after

        @functools.wraps(function)
        def call(*args: P.args, **kwargs: P.kwargs) -> T:
            started = clock()
            n = 1
            while True:
                try:
                    return function(*args, **kwargs)
                except Exception as error:
                    if (wait := wait_after(n, started, error)) is None:
                        raise
                # Outside of `except`, so that the next error does not get this one as its context.
                self._pause(wait)
                n += 1

        return call

    def _retried_async(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        clock, wait_after = self._clock, self._wait_after

        @functools.wraps(function)
        async def call(*args: P.args, **kwargs: P.kwargs) -> T:
            started = clock()
            n = 1
            while True:
                try:
                    return await function(*args, **kwargs)
                except Exception as error:
                    if (wait := wait_after(n, started, error)) is None:
                        raise
                await self._pause_async(wait)
                n += 1

        return call

    def __iter__(self) -> Iterator[Attempt]:
        attempt = Attempt(self, 1, self._clock())
        yield attempt
        while attempt.wait is not None:
            self._pause(attempt.wait)
            attempt = attempt.next()
            yield attempt

    async def __aiter__(self) -> AsyncIterator[Attempt]:
        attempt = Attempt(self, 1, self._clock())
        yield attempt
        while attempt.wait is not None:
            await self._pause_async(attempt.wait)
            attempt = attempt.next()
            yield attempt

    def _pause(self, seconds: float) -> None:
        (self._sleep or time.sleep)(seconds)

    async def _pause_async(self, seconds: float) -> None:
        slept = (self._sleep or asyncio.sleep)(seconds)
        if inspect.isawaitable(slept):
            await slept

    def _wait_after(self, n: int, started: float, error: Exception) -> float | None:
        elapsed = self._clock() - started
        decision = self._policy.decide(n, elapsed=elapsed, error=self._on(error), random=self._random)
        if isinstance(decision, GiveUp):
            tries = "1 try" if n == 1 else f"{n} tries"
            error.add_note(f"Given up after {tries} over {elapsed:.3g} s: {decision.reason}.")
            return None
        log.log(
            logging.WARNING if decision.last else logging.INFO,
            "Try %d failed and is repeated in %.3g s%s: %s: %s",
            *(n, decision.after, ", for the last time" if decision.last else ""),
            *(type(error).__name__, redact_error(str(error))),
        )
        return decision.after


retrying = Retrying


class Attempt:
    """One try of a block of code; enter it with `with`."""

    __slots__ = ("_retrying", "_started", "number", "wait")

    def __init__(self, retrying: Retrying, number: int, started: float) -> None:
        self._retrying = retrying
        self._started = started
        self.number = number
        self.wait: float | None = None

    def next(self) -> Attempt:
        """Return the attempt that follows this one."""
        return Attempt(self._retrying, self.number + 1, self._started)

    def __enter__(self) -> Attempt:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        self.wait = self._retrying._wait_after(self.number, self._started, error)
        return self.wait is not None
