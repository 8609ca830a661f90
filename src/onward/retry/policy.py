"""The retry policy: how often and how long to retry, and when to give up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple, TypeAlias

from onward.retry.backoff import Backoff
from onward.retry.classify import Classified, Kind, classify


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

    Without `max_tries` and `max_elapsed` (seconds) it never gives up. A dependency's Retry-After replaces
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
        for name in ("max_tries", "persistent_from"):
            count = getattr(self, name)
            if count is not None and (type(count) is not int or count < 1):
                raise ValueError(f"RetryPolicy({name}={count!r}): must be a whole number from 1, or None for none")
        if self.max_elapsed is not None and not self.max_elapsed > 0:
            raise ValueError(f"RetryPolicy(max_elapsed={self.max_elapsed!r}): must be seconds above 0, or None")
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
        waits = n if self.max_tries is None else min(n, self.max_tries - 1)
        return tuple(self.backoff.bounds(k) for k in range(1, waits + 1))
