"""The retry policy: how long to wait after a failure, how often to retry, and when to give up."""

from __future__ import annotations

import math
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from enum import StrEnum
from random import Random
from typing import Any, NamedTuple, Protocol, TypeAlias

from onward.retry.classify import classify
from onward.retry.errors import Classified, Kind


class Backoff(Protocol):
    """A pure function from the number of failures to a wait in seconds."""

    def delay(self, n: int, random: Random) -> float:
        """Return the wait after failure `n`, which counts from 1."""
        ...

    def bounds(self, n: int) -> tuple[float, float]:
        """Return the shortest and the longest wait that `delay` may return."""
        ...


@dataclass(frozen=True, slots=True)
class Exponential:
    """Wait `base` seconds, then `factor` times as long each time, never longer than `cap`.

    With `jitter` the wait is drawn evenly from zero to that value, so that clients that failed together do
    not retry together.
    """

    base: float
    factor: float = 2.0
    cap: float = 60.0
    jitter: bool = False

    def __post_init__(self) -> None:
        # As floats, so that a large power overflows at once instead of growing into a huge integer.
        for name, least in (("base", 0.0), ("factor", 1.0), ("cap", 0.0)):
            object.__setattr__(self, name, _number(f"Exponential({name}=…)", getattr(self, name), least))

    def delay(self, n: int, random: Random) -> float:
        longest = self._longest(n)
        return longest * random.random() if self.jitter else longest

    def bounds(self, n: int) -> tuple[float, float]:
        longest = self._longest(n)
        return (0.0 if self.jitter else longest, longest)

    def _longest(self, n: int) -> float:
        try:
            return min(self.base * self.factor ** (n - 1), self.cap)
        except OverflowError:
            return self.cap if self.base else 0.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """Wait as listed, in seconds; the last wait repeats."""

    delays: tuple[float, ...]

    def __post_init__(self) -> None:
        given: Iterable[float] = self.delays
        delays = tuple(_number("Schedule(delays=…)", delay, 0.0) for delay in given)
        if not delays:
            raise ValueError("Schedule(delays=()): name at least one wait in seconds")
        object.__setattr__(self, "delays", delays)

    def delay(self, n: int, random: Random) -> float:
        return self.delays[min(n, len(self.delays)) - 1]

    def bounds(self, n: int) -> tuple[float, float]:
        wait = self.delays[min(n, len(self.delays)) - 1]
        return (wait, wait)


def _number(what: str, value: float, least: float) -> float:
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise TypeError(f"{what}: {value!r} is not a number")
    if not math.isfinite(value) or value < least:
        raise ValueError(f"{what}: {value!r} must be a finite number of at least {least:g}")
    return float(value)


class Reason(StrEnum):
    """Why an event was given up: a dead letter's `abandoned_reason`."""

    MAX_ATTEMPTS_EXCEEDED = "max_attempts_exceeded"
    TTL_EXCEEDED = "ttl_exceeded"
    NON_RETRYABLE = "non_retryable"
    MALFORMED = "malformed"
    CRASH_LOOP = "crash_loop"
    SERVICE_RETIRED = "service_retired"


# Tuples, not dataclasses: one is made for each failure, at half the cost.
class Retry(NamedTuple):
    """Try again after `after` seconds; `last` means that the next failure will be given up."""

    after: float
    last: bool


class GiveUp(NamedTuple):
    """Do not try again."""

    reason: Reason


Decision: TypeAlias = Retry | GiveUp

_MAX_ATTEMPTS = GiveUp(Reason.MAX_ATTEMPTS_EXCEEDED)
_TTL = GiveUp(Reason.TTL_EXCEEDED)
_NON_RETRYABLE = GiveUp(Reason.NON_RETRYABLE)
_MALFORMED_EVENT = GiveUp(Reason.MALFORMED)
# Reading an enum member through its class is slow.
_PERMANENT, _MALFORMED = Kind.PERMANENT, Kind.MALFORMED


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Decides whether to retry, and when; it reads no clock and does no I/O.

    Without `max_tries` and `max_elapsed` (seconds; 0: one try) it never gives up; a `RetryConfig` in place of
    the backoff sets both, unless they are given. A dependency's Retry-After replaces
    the backoff, up to `max_hint` seconds. From retry number `persistent_from` on, a failure is shown to the
    operator as persistent, and is still retried.
    """

    backoff: Backoff
    max_tries: int | None = None
    max_elapsed: float | None = None
    max_hint: float = 3600.0
    persistent_from: int | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if isinstance(config := self.backoff, RetryConfig):
            numbers = {"max_tries": config.max_attempts + 1, "max_elapsed": config.ttl_minutes * 60}
            for name, value in {**numbers, "name": "not ready"}.items():
                if getattr(self, name) in (None, ""):
                    object.__setattr__(self, name, value)
            object.__setattr__(self, "backoff", config.backoff())
        for name in ("max_tries", "persistent_from"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise ValueError(f"RetryPolicy({name}={count!r}): must be a whole number from 1, or None for none")
        if self.max_elapsed is not None and not self.max_elapsed >= 0:
            raise ValueError(f"RetryPolicy(max_elapsed={self.max_elapsed!r}): must be seconds from 0, or None")
        if not (self.max_hint >= 0 and math.isfinite(self.max_hint)):
            raise ValueError(f"RetryPolicy(max_hint={self.max_hint!r}): must be finite seconds of at least 0")

    def decide(
        self,
        n: int,
        *,
        elapsed: float = 0.0,
        error: BaseException | Classified | None = None,
        hint: float | None = None,
        random: Random,
    ) -> Decision:
        """Return what to do after failure `n`, where `n` counts the tries made so far.

        `elapsed` is the time since the first try began. A permanent `error` is given up at once; the
        Retry-After of an error is the default of `hint`.
        """
        if n < 1:
            raise ValueError(f"decide({n}): tries are counted from 1")
        if error is not None:
            if not isinstance(error, Classified):
                error = classify(error)
            if (kind := error.kind) is _PERMANENT:
                return _NON_RETRYABLE
            if kind is _MALFORMED:
                return _MALFORMED_EVENT
            if hint is None:
                hint = error.retry_after
        max_tries = self.max_tries
        if max_tries is not None and n >= max_tries:
            return _MAX_ATTEMPTS
        if hint is None or hint != hint:  # noqa: PLR0124 - of a NaN, the backoff decides
            after = self.backoff.delay(n, random)
        else:
            after = min(max(float(hint), 0.0), self.max_hint)
        last = max_tries is not None and n + 1 >= max_tries
        if (deadline := self.max_elapsed) is not None:
            if elapsed >= deadline or elapsed + after > deadline:
                return _TTL
            last = last or elapsed + after >= deadline
        return Retry(after, last)

    def persistent(self, retries: int) -> bool:
        """Return whether a failure with this many retries is shown to the operator as persistent."""
        return self.persistent_from is not None and retries >= self.persistent_from

    def schedule(self, n: int) -> tuple[tuple[float, float], ...]:
        """Return the bounds of the first `n` waits, or of all of them if there are fewer."""
        if self.max_elapsed == 0:
            return ()
        waits = n if self.max_tries is None else min(n, self.max_tries - 1)
        return tuple(self.backoff.bounds(k) for k in range(1, waits + 1))


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """How an event that came too early is retried; each field is a `RETRY_…` variable.

    `max_attempts` counts the retries, so the handler runs at most `max_attempts + 1` times; `ttl_minutes=0`
    means one try. `RetryPolicy(config)` makes the policy with these numbers: full jitter, capped, within the
    time to live.
    """

    max_attempts: int = 8
    base_delay_ms: float = 250.0
    backoff_factor: float = 2.0
    max_delay_seconds: float = 60.0
    ttl_minutes: float = 30.0

    def __post_init__(self) -> None:
        if type(self.max_attempts) is not int or self.max_attempts < 0:
            raise ValueError(
                f"RetryConfig(max_attempts={self.max_attempts!r}): must be a whole number of at least 0"
            )
        RetryPolicy(self)  # raises if a number makes no sense

    def backoff(self) -> Exponential:
        return Exponential(self.base_delay_ms / 1000, self.backoff_factor, cap=self.max_delay_seconds, jitter=True)

    def delay(self, n: int, random: Random) -> float:
        return self.backoff().delay(n, random)

    def bounds(self, n: int) -> tuple[float, float]:
        return self.backoff().bounds(n)

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> RetryConfig:
        """Read `RETRY_MAX_ATTEMPTS`, `RETRY_BASE_DELAY_MS`, …; variables that are not set keep their default."""
        values: dict[str, Any] = {}  # int or float, by field
        for item in fields(cls):
            variable, whole = f"RETRY_{item.name.upper()}", item.name == "max_attempts"
            text = environ.get(variable, "").strip()
            try:
                if text:
                    values[item.name] = int(text) if whole else float(text)
            except ValueError:
                kind = "a whole number" if whole else "a number"
                raise ValueError(f"{variable} is {text!r}, but must be {kind}") from None
        return cls(**values)


# -- the ladder: one policy for each time scale

_MINUTE = 60.0
OTHER_ROUNDS = 5  # the maximum for collections that `Ladder.rounds` does not name


@dataclass(frozen=True, slots=True)
class Ladder:
    """The policies of the rungs that need no operator, with their default numbers.

    `not_ready` and `transient` (or `fetching`) count tries within a round; `failed_batch` counts retries of
    a batch; `retry_job` counts rounds, whose maximum depends on the collection.
    """

    # The first try and 8 retries.
    not_ready: RetryPolicy = RetryPolicy(
        Exponential(0.25, cap=60.0, jitter=True), max_tries=9, max_elapsed=30 * _MINUTE, name="not ready"
    )
    transient: RetryPolicy = RetryPolicy(Exponential(5.0, cap=60.0), max_tries=3, name="transient")
    fetching: RetryPolicy = RetryPolicy(Exponential(2.0, cap=60.0), max_tries=3, name="fetching")
    failed_batch: RetryPolicy = RetryPolicy(
        Schedule(tuple(minutes * _MINUTE for minutes in (1, 5, 10, 20, 40, 60))),
        persistent_from=10,
        name="failed batch",
    )
    retry_job: RetryPolicy = RetryPolicy(Exponential(300.0, cap=3600.0), name="retry job")
    rounds: Mapping[str, int] = field(
        default_factory=lambda: {"archives": 3, "messages": 3, "chunks": 5, "threads": 5}, hash=False
    )

    def max_rounds(self, collection: str) -> int:
        """Return the maximum number of rounds for a document of this collection."""
        return self.rounds.get(collection, OTHER_ROUNDS)
