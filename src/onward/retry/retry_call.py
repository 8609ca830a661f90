"""Retry in place: a function, a block of code, or the handling of one event."""

from __future__ import annotations

import asyncio
import functools
import inspect
import itertools
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from datetime import UTC, datetime
from random import Random
from typing import Any, ParamSpec, TypeVar, cast

from onward.retry.errors import Classified, Classifier, Kind, classify
from onward.retry.policy import GiveUp, Ladder, RetryConfig, RetryPolicy
from onward.retry.redact import redact_error

E = TypeVar("E")
P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("onward.retry")
_RANDOM = Random()
MAX_ERRORS = 20  # errors kept in a dead letter: the first and the latest


@dataclass(frozen=True, slots=True, eq=False)
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

    policy: RetryPolicy = Ladder().transient
    _: KW_ONLY
    on: Classifier = classify
    clock: Callable[[], float] | None = None
    sleep: Callable[[float], object] | None = None
    random: Random | None = None

    def __call__(self, function: Callable[P, T]) -> Callable[P, T]:
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
        clock, wait_after = self.clock or time.monotonic, self._wait_after

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
                (self.sleep or time.sleep)(wait)
                n += 1

        return call

    def _retried_async(self, function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
        clock, wait_after = self.clock or time.monotonic, self._wait_after

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
        started = (self.clock or time.monotonic)()
        for number in itertools.count(1):
            yield (attempt := Attempt(self, number, started))
            if attempt.wait is None:
                return
            (self.sleep or time.sleep)(attempt.wait)

    async def __aiter__(self) -> AsyncIterator[Attempt]:
        started = (self.clock or time.monotonic)()
        for number in itertools.count(1):
            yield (attempt := Attempt(self, number, started))
            if attempt.wait is None:
                return
            await self._pause_async(attempt.wait)

    async def _pause_async(self, seconds: float) -> None:
        slept = (self.sleep or asyncio.sleep)(seconds)
        if inspect.isawaitable(slept):
            await slept

    def _wait_after(self, n: int, started: float, error: Exception) -> float | None:
        elapsed = (self.clock or time.monotonic)() - started
        random = self.random or _RANDOM
        decision = self.policy.decide(n, elapsed=elapsed, error=self.on(error), random=random)
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


@dataclass(slots=True, eq=False)
class Attempt:
    """One try of a block of code; enter it with `with`."""

    _retrying: Retrying
    number: int
    _started: float
    wait: float | None = None

    def __enter__(self) -> Attempt:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> bool:
        if not isinstance(error, Exception):
            return False
        self.wait = self._retrying._wait_after(self.number, self._started, error)
        return self.wait is not None


# -- one event


def handle_event_with_retry(
    handler: Callable[[E], object],
    event: E,
    *,
    config: RetryConfig | None = None,
    idempotency_key: str,
    service_name: str,
    dead_letter: Callable[[dict[str, Any]], object] | None = None,
    on: Classifier = classify,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
    random: Random | None = None,
) -> bool:
    """Run `handler(event)`, and again while it raises `NotReady`; return True when it succeeded.

    After any other error, or one `NotReady` too many, the event is a dead letter: `dead_letter` is called
    with it, and the function returns False. Without `dead_letter` the error is raised. `clock` returns Unix
    seconds.
    """
    policy = RetryPolicy(config or RetryConfig())
    random = random or Random()
    errors: list[dict[str, Any]] = []
    started = clock()
    n = 0
    while True:
        n += 1
        try:
            handler(event)
        except Exception as error:
            now = clock()
            kind, text = type(error).__name__, redact_error(f"{type(error).__name__}: {error}")
            timestamp = datetime.fromtimestamp(now, UTC).isoformat().replace("+00:00", "Z")
            errors.append({"timestamp": timestamp, "error_type": kind, "error": text})
            if len(errors) > MAX_ERRORS:
                del errors[1]
            found = on(error)
            if found.kind is Kind.TRANSIENT:  # only `NotReady` is retried in place
                found = Classified(Kind.PERMANENT)
            decision = policy.decide(n, elapsed=now - started, error=found, random=random)
            if isinstance(decision, GiveUp):
                trace = redact_error("".join(traceback.format_exception(error)))
                log.error("%s gave up event %s: %s\n%s", service_name, idempotency_key, decision.reason, trace)
                if dead_letter is None:
                    raise
                dead_letter(
                    {
                        "original_event": event,
                        "idempotency_key": idempotency_key,
                        "attempt_count": n,
                        "last_error": text,
                        "error_type": kind,
                        "abandoned_reason": decision.reason.value,
                        "service_name": service_name,
                        "timestamp": timestamp,
                        "errors": errors,
                    }
                )
                return False
            log.log(
                logging.WARNING if decision.last else logging.INFO,
                "%s retries event %s in %.3g s after try %d%s: %s",
                *(service_name, idempotency_key, decision.after, n),
                *(", for the last time" if decision.last else "", text),
            )
        else:
            return True
        sleep(decision.after)
