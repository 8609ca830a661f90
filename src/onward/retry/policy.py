"""The one retry policy: how often, how long, and when to give up."""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum
from random import Random
from typing import NamedTuple, TypeAlias

from onward.retry.backoff import Backoff
from onward.retry.classify import Classified, Kind, classify


class Reason(StrEnum):
    """Why something was given up; a dead letter's `abandoned_reason`."""

    MAX_ATTEMPTS_EXCEEDED = "max_attempts_exceeded"
    TTL_EXCEEDED = "ttl_exceeded"
    NON_RETRYABLE = "non_retryable"
    MALFORMED = "malformed"
    CRASH_LOOP = "crash_loop"


# Tuples rather than dataclasses: they are made once for each failure, and cost half as much.
class Retry(NamedTuple):
    """Try again after so many seconds; `last` says that no further failure will be forgiven."""

    after: float
    last: bool


class GiveUp(NamedTuple):
    """Do not try again."""

    reason: Reason


Decision: TypeAlias = Retry | GiveUp

_TOO_OFTEN = GiveUp(Reason.MAX_ATTEMPTS_EXCEEDED)
_TOO_LATE = GiveUp(Reason.TTL_EXCEEDED)
_FINAL = GiveUp(Reason.NON_RETRYABLE)
_BROKEN = GiveUp(Reason.MALFORMED)
# An enum's member is slow to reach through its class.
_PERMANENT, _MALFORMED = Kind.PERMANENT, Kind.MALFORMED


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Say whether to try again, and when; it knows no clock and does nothing itself.

    Without `max_tries` and `max_elapsed` (seconds) it never gives up. A dependency's own wish, its
    Retry-After, replaces the backoff up to `max_hint` seconds. From the retry `persistent_from` on, a
    failure is to be shown to an operator although it is still being retried.
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
                raise ValueError(
                    f"RetryPolicy({name}={count!r}): must be a whole number from 1 on, or None for none"
                )
        if self.max_elapsed is not None and not self.max_elapsed > 0:
            raise ValueError(
                f"RetryPolicy(max_elapsed={self.max_elapsed!r}): must be seconds above 0, or None for none"
            )
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
        """Answer what to do after failure `n`, where `n` counts the tries made so far.

        `elapsed` is the time since the first try began. An `error` that cannot pass is given up at once;
        one that carries a Retry-After gives the `hint`, unless one is given.
        """
        if n < 1:
            raise ValueError(f"decide({n}): tries are counted from 1, and one must have been made")
        if error is not None:
            if not isinstance(error, Classified):
                error = classify(error)
            if (kind := error.kind) is _PERMANENT:
                return _FINAL
            if kind is _MALFORMED:
                return _BROKEN
            if hint is None:
                hint = error.retry_after
        max_tries = self.max_tries
        if max_tries is not None and n >= max_tries:
            return _TOO_OFTEN
        if hint is None or hint != hint:  # noqa: PLR0124 - a NaN says nothing, so the backoff decides
            after = self.backoff.delay(n, random)
        else:
            after = min(max(float(hint), 0.0), self.max_hint)
        last = max_tries is not None and n + 1 >= max_tries
        if (deadline := self.max_elapsed) is not None:
            if elapsed >= deadline or elapsed + after > deadline:
                return _TOO_LATE
            last = last or elapsed + after >= deadline
        return Retry(after, last)

    def persistent(self, retries: int) -> bool:
        """Tell whether this many retries call for an operator's eye."""
        return self.persistent_from is not None and retries >= self.persistent_from

    def schedule(self, n: int) -> tuple[tuple[float, float], ...]:
        """Return the bounds of the first `n` waits, or of all of them if there are fewer."""
        waits = n if self.max_tries is None else min(n, self.max_tries - 1)
        return tuple(self.backoff.bounds(k) for k in range(1, waits + 1))
