"""Handle one event that may have come before its document: retry it in place, or make it a dead letter."""

from __future__ import annotations

import logging
import os
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from random import Random
from typing import Any, TypeVar

from onward.retry.backoff import Exponential
from onward.retry.classify import Classified, Classifier, Kind, classify
from onward.retry.policy import GiveUp, RetryPolicy
from onward.retry.redact import redact_error

E = TypeVar("E")

log = logging.getLogger("onward.retry")
MAX_ERRORS = 20  # errors kept in a dead letter: the first and the latest


@dataclass(frozen=True, slots=True)
class RetryConfig:
    """How an event that came too early is retried; each field is a `RETRY_…` variable.

    `max_attempts` counts the retries, so the handler runs at most `max_attempts + 1` times.
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
        self.policy()  # raises if a number makes no sense

    def policy(self) -> RetryPolicy:
        """Return the policy with these numbers: full jitter, capped, within the time to live."""
        return RetryPolicy(
            Exponential(self.base_delay_ms / 1000, self.backoff_factor, cap=self.max_delay_seconds, jitter=True),
            max_tries=self.max_attempts + 1,
            max_elapsed=self.ttl_minutes * 60,
            name="not ready",
        )

    @classmethod
    def from_env(cls, environ: Mapping[str, str] = os.environ) -> RetryConfig:
        """Read `RETRY_MAX_ATTEMPTS`, `RETRY_BASE_DELAY_MS`, …; variables that are not set keep their default."""
        values: dict[str, Any] = {}  # int or float, by field
        for item in fields(cls):
            variable = f"RETRY_{item.name.upper()}"
            if not (text := environ.get(variable, "").strip()):
                continue
            whole = item.name == "max_attempts"
            try:
                values[item.name] = int(text) if whole else float(text)
            except ValueError:
                kind = "a whole number" if whole else "a number"
                raise ValueError(f"{variable} is {text!r}, but must be {kind}") from None
        return cls(**values)


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
    policy = (config or RetryConfig()).policy()
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
            failure = {
                "error_type": type(error).__name__,
                "error": redact_error(f"{type(error).__name__}: {error}"),
            }
            errors.append({"timestamp": _iso(now), **failure})
            if len(errors) > MAX_ERRORS:
                del errors[1]
            decision = policy.decide(n, elapsed=now - started, error=_only_not_ready(on(error)), random=random)
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
                        "last_error": failure["error"],
                        "error_type": failure["error_type"],
                        "abandoned_reason": decision.reason.value,
                        "service_name": service_name,
                        "timestamp": _iso(now),
                        "errors": errors,
                    }
                )
                return False
            log.log(
                logging.WARNING if decision.last else logging.INFO,
                "%s retries event %s in %.3g s after try %d%s: %s",
                *(service_name, idempotency_key, decision.after, n),
                *(", for the last time" if decision.last else "", failure["error"]),
            )
        else:
            return True
        sleep(decision.after)


def _only_not_ready(failure: Classified) -> Classified:
    """Make transient failures permanent: only `NotReady` is retried in place."""
    return Classified(Kind.PERMANENT) if failure.kind is Kind.TRANSIENT else failure


def _iso(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).isoformat().replace("+00:00", "Z")
