"""Retry in place: a function, a block of code, or the handling of one event."""

from __future__ import annotations

import functools
import inspect
import itertools
import logging
import time
import traceback
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from dataclasses import KW_ONLY, dataclass
from random import Random
from typing import Any, ParamSpec, Protocol, TypeVar, cast

from onward.retry.classify import classify
from onward.retry.errors import Classified, Classifier, Kind
from onward.retry.iso_time import iso_time
from onward.retry.policy import GiveUp, Ladder, RetryConfig, RetryPolicy
from onward.retry.redact import redact_error

E = TypeVar("E")
P = ParamSpec("P")
T = TypeVar("T")

log = logging.getLogger("onward.retry")
_RANDOM = Random()
MAX_ERRORS = 20  # errors kept in a dead letter: the first and the latest
MAX_ATTEMPT_LABEL = 20  # more tries than this have the label `more`


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
        import asyncio  # not at the top: who only declares policies should not wait for it

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
        most = self.policy.max_tries
        log.log(
            logging.WARNING if decision.last else logging.INFO,
            "Try %d%s failed and is repeated in %.3g s%s: %s: %s",
            *(n, f" of {most}" if most else "", decision.after, ", for the last time" if decision.last else ""),
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


class MetricsCollector(Protocol):
    """Counts events; `app.metrics` is one."""

    def increment(self, name: str, by: float = 1.0, /, **labels: str) -> None: ...

    def observe(self, name: str, value: float, /, **labels: str) -> None: ...


def attempt_label(tries: int) -> str:
    """Return the label `attempt` of `event_retry_success_total`; its number of values is bounded."""
    return str(tries) if tries <= MAX_ATTEMPT_LABEL else "more"


def _measure(
    collector: MetricsCollector, service: str, tries: int, *, reason: str = "", seconds: float | None = None
) -> None:
    """Count how an event ended; a collector that fails never fails the event."""
    try:
        collector.observe("event_retry_attempt_count", tries, service=service)
        if reason:
            collector.increment("event_retry_dlq_total", service=service, reason=reason)
        if seconds is not None:
            collector.increment("event_retry_success_total", service=service, attempt=attempt_label(tries))
            collector.observe("event_retry_latency_seconds", seconds, service=service)
    except Exception as error:
        log.error("the metrics collector failed: %s", redact_error(f"{type(error).__name__}: {error}"))


_USUAL = Ladder().not_ready
_policy_of = functools.lru_cache(maxsize=64)(RetryPolicy)  # making one costs more than a call that succeeds


def handle_event_with_retry(
    handler: Callable[[E], object],
    event: E,
    *,
    config: RetryConfig | None = None,
    idempotency_key: str,
    service_name: str,
    dead_letter: Callable[[dict[str, Any]], object] | None = None,
    metrics_collector: MetricsCollector | None = None,
    on: Classifier = classify,
    clock: Callable[[], float] = time.time,
    sleep: Callable[[float], object] = time.sleep,
    random: Random | None = None,
) -> bool:
    """Run `handler(event)`, and again while it raises `NotReady`; return True when it succeeded.

    After any other error, or one `NotReady` too many, the event is a dead letter: `dead_letter` is called
    with it, and the function returns False. Without `dead_letter` the error is raised. `metrics_collector`
    gets the `event_retry_…` metrics. `clock` returns Unix seconds.
    """
    policy = _USUAL if config is None else _policy_of(config)
    errors: list[dict[str, Any]] = []
    started = clock()
    first_failure = 0.0
    n = 0
    debug = log.isEnabledFor(logging.DEBUG)
    call = {"service": service_name, "idempotency_key": idempotency_key}
    while True:
        n += 1
        if debug:
            extra = {"onward": {**call, "attempt": n}}
            log.debug("%s: try %d of event %s begins", service_name, n, idempotency_key, extra=extra)
        try:
            handler(event)
        except Exception as error:
            now = clock()
            first_failure = first_failure or now
            kind, text = type(error).__name__, redact_error(f"{type(error).__name__}: {error}")
            timestamp = iso_time(now)
            errors.append({"timestamp": timestamp, "error_type": kind, "error": text})
            if len(errors) > MAX_ERRORS:
                del errors[1]
            found = on(error)
            if found.kind is Kind.TRANSIENT:  # only `NotReady` is retried in place
                found = Classified(Kind.PERMANENT)
            decision = policy.decide(n, elapsed=now - started, error=found, random=random or _RANDOM)
            extra = {"onward": {**call, "attempts": n, "error_type": kind}}
            tried = f"{service_name}: event {idempotency_key}", n, policy.max_tries
            if isinstance(decision, GiveUp):
                trace = redact_error("".join(traceback.format_exception(error)))
                log.error("%s given up at try %d of %d: %s\n%s", *tried, decision.reason, trace, extra=extra)
                if metrics_collector is not None:
                    _measure(metrics_collector, service_name, n, reason=decision.reason.value)
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
            level, ending = (logging.WARNING, ", for the last time") if decision.last else (logging.INFO, "")
            retried = (*tried, decision.after, ending, text)
            log.log(level, "%s failed, try %d of %d, again in %.3g s%s: %s", *retried, extra=extra)
        else:
            seconds = None
            if n > 1:
                seconds = clock() - first_failure
                extra = {"onward": {**call, "attempts": n, "latency_seconds": round(seconds, 3)}}
                text = "%s: event %s processed after %d tries, %.3g s after the first failure"
                log.info(text, service_name, idempotency_key, n, seconds, extra=extra)
            if metrics_collector is not None:
                _measure(metrics_collector, service_name, n, seconds=seconds)
            return True
        sleep(decision.after)
