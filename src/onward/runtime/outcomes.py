"""What became of calls, reported after the commit: in the log, to observers, and as metrics."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.model.documents import Status
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    CommitResult,
    CommitStatus,
    DeadLettered,
    Expired,
    InFailedBatch,
    Processed,
    RetryLater,
)
from onward.model.metric_catalogue import buckets_of
from onward.retry import Reason
from onward.retry.retry_call import attempt_label
from onward.runtime.metrics import Counted, Distribution, Metrics
from onward.runtime.tracing import parent_of

if TYPE_CHECKING:
    from onward.runtime.handler_call import Call, FinishedCall, OpenDelivery

log = logging.getLogger("onward")

MAX_NAMED = 5  # documents that a line of the log names


@dataclass(slots=True)
class Signal:
    """Something that happened to a delivery of a service."""

    service: str
    row: int
    ids: tuple[str, ...]


@dataclass(slots=True)
class Finished(Signal):
    """A work was committed."""

    seconds: float
    tries: int
    duplicates: int
    retried_for: float | None = None  # seconds since the event failed for the first time, if it did


@dataclass(slots=True)
class Retried(Signal):
    """A try failed and is to be repeated."""

    error_type: str
    after: float
    not_ready: bool
    failure: Failure | None = None


@dataclass(slots=True)
class GaveUp(Signal):
    """An event became a dead letter."""

    error_type: str
    reason: str
    tries: int
    failure: Failure | None = None


@dataclass(slots=True)
class SetAside(Signal):
    """Documents joined a failed batch."""

    error_type: str
    failure: Failure | None = None


@dataclass(slots=True)
class NeverTried(Signal):
    """The deadline of an event passed before its first try: its documents are discarded."""


@dataclass(slots=True)
class Dropped(Signal):
    """A work was not committed, because it was a zombie's or its input had changed."""

    verdict: str


@dataclass(slots=True)
class BreakerMoved:
    """A dependency's breaker opened or closed."""

    dependency: str
    open: bool


AnySignal = Signal | BreakerMoved
Hook = Callable[[AnySignal], None]


class Hooks:
    """Calls all observers; an observer that fails never fails the work."""

    def __init__(self) -> None:
        self.observers: list[Hook] = []
        self._calling = threading.RLock()  # held while observers are called: several commits may end at once

    def __call__(self, signal: AnySignal) -> None:
        with self._calling:
            for observe in self.observers:
                try:
                    observe(signal)
                except Exception as error:
                    broken = Failure.of(error, at=0.0, service="").traceback
                    log.error("an observer failed on %s\n%s", type(signal).__name__, broken)


# -- reporting


def report(hooks: Hooks, done: Sequence[tuple[FinishedCall, CommitResult]]) -> None:
    debug = log.isEnabledFor(logging.DEBUG)  # asked once: plain successes come by the thousand
    for item, result in done:
        if result.status is not CommitStatus.COMMITTED:
            name = item.of.service.name
            log.info("%s: a work was dropped, its delivery is %s", name, result.status)
            hooks(Dropped(name, item.settlement.row, tuple(item.of.ids), result.status))
        elif item.reply is None:  # a checkpoint is no outcome
            report_outcome(hooks, item, result, debug=debug)


def report_outcome(hooks: Hooks, item: FinishedCall, result: CommitResult, *, debug: bool = False) -> None:
    """Log and signal what a call, or the opening of a delivery, led to."""
    of, settlement, delivery = item.of, item.settlement, item.of.delivery
    name, row = of.service.name, settlement.row
    tries = delivery.tries + delivery.not_ready + 1
    for part in settlement.parts if result.parts is None else result.parts:
        ids = tuple(part.ids)
        if isinstance(part, Processed):
            if ids or not of.ids:
                failed_at = delivery.failed_at
                retried_for = None if failed_at is None else max(0.0, of.opened.context.now() - failed_at)
                if debug or tries > 1:
                    _log_success(of, ids, tries, retried_for)
                if hooks.observers:
                    hooks(Finished(name, row, ids, of.seconds, tries, result.duplicates, retried_for))
            continue
        if isinstance(part, Expired):
            _log_expired(of, ids)
            hooks(NeverTried(name, row, ids))
            continue
        failure = part.failure
        if failure is not None:
            _log_failure(of, part, failure)
        kind = failure.error_type if failure else ""
        if isinstance(part, InFailedBatch):
            hooks(SetAside(name, row, ids, kind, failure))
        elif isinstance(part, DeadLettered):
            hooks(GaveUp(name, row, ids, kind, part.reason, tries, failure))
        elif failure is not None:
            hooks(Retried(name, row, ids, kind, part.after, part.charge is Charge.NOT_READY, failure))


def log_start(call: Call) -> None:
    attempt = call.delivery.tries + call.delivery.not_ready + 1
    fields = _outcome_fields(call, call.ids, attempt=attempt)
    text = (call.service.name, attempt, _named(call.ids), fields["idempotency_key"])
    log.debug("%s: try %d of %s begins, key %s", *text, extra={"onward": fields})


def _log_success(of: Call | OpenDelivery, ids: Sequence[str], tries: int, retried_for: float | None) -> None:
    what, fields = f"{of.service.name}: {_named(ids)}", _outcome_fields(of, ids, attempts=tries)
    extra, key = {"onward": fields}, fields["idempotency_key"]
    if tries == 1:
        log.debug("%s processed at try 1, in %.3g s, key %s", what, of.seconds, key, extra=extra)
    else:
        seconds = fields["latency_seconds"] = round(retried_for or 0.0, 3)
        text = "%s processed after %d tries, %g s after the first failure, key %s"
        log.info(text, what, tries, seconds, key, extra=extra)


def _log_expired(of: Call | OpenDelivery, ids: Sequence[str]) -> None:
    fields = _outcome_fields(of, ids)
    what, key = f"{of.service.name}: {_named(ids)}", fields["idempotency_key"]
    log.info("%s expired before its first try, and is discarded, key %s", what, key, extra={"onward": fields})


def _log_failure(
    of: Call | OpenDelivery, part: RetryLater | DeadLettered | InFailedBatch, failure: Failure
) -> None:
    what, fields = f"{of.service.name}: {_named(part.ids)}", _outcome_fields(of, part.ids)
    problem = f"key {fields['idempotency_key']}: {failure.error_type}: {failure.message}"
    fields["error_type"], extra = failure.error_type, {"onward": fields}
    if isinstance(part, RetryLater) and part.given_back:
        log.info("%s waits for its dependency, uncharged, %s", what, problem, extra=extra)
        return
    tried = ""
    charge = Charge.TRY if isinstance(part, InFailedBatch) else part.charge
    if charge is not Charge.NOTHING:
        delivery, service, ladder = of.delivery, of.service, of.opened.context.ladder
        fields["attempts"] = delivery.tries + delivery.not_ready + 1
        if charge is Charge.NOT_READY:
            n, policy = delivery.not_ready + 1, service.not_ready or ladder.not_ready
        else:
            n, policy = delivery.tries + 1, service.policy or getattr(ladder, service.rung)
        tried = f"try {n}" if policy.max_tries is None else f"try {n} of {policy.max_tries}"
    if isinstance(part, InFailedBatch):
        log.error("%s set aside at %s, %s", what, tried, problem, extra=extra)
    elif isinstance(part, DeadLettered):
        fields["traceback"] = failure.traceback
        if part.final and part.ids:
            fields["status"] = Status.FAILED
        tried = f" at {tried}" if tried else ""
        what = f"{what} given up ({part.reason}){tried}"
        log.error("%s, %s\n%s", what, problem, failure.traceback, extra=extra)
    else:
        fields["retry_in_seconds"] = round(part.after, 3)
        tried = f", {tried}" if tried else ""
        last = any(part is chance for chance in of.opened.last_chances)
        level, ending = (logging.WARNING, ", for the last time") if last else (logging.INFO, "")
        text = (what, tried, part.after, ending, problem)
        log.log(level, "%s failed%s, again in %.1f s%s, %s", *text, extra=extra)


def _named(ids: Sequence[str]) -> str:
    return ", ".join(ids[:3]) or "event"


def _outcome_fields(of: Call | OpenDelivery, ids: Sequence[str], **more: Any) -> dict[str, Any]:
    return log_fields(of, ids) | {"idempotency_key": of.delivery.key.partition("/")[0]} | more


def log_fields(of: Call | OpenDelivery, ids: Sequence[str]) -> dict[str, Any]:
    delivery = of.delivery
    fields: dict[str, Any] = {
        "worker": of.opened.context.worker,
        "service": of.service.name,
        "event": delivery.event_id,
        "documents": [f"{delivery.collection}/{id}" for id in ids[:MAX_NAMED]],
        "round": delivery.round,
        "try": delivery.tries + 1,
        "trace": parent_of(delivery.trace),
    }
    return fields | {"document_count": len(ids)} if len(ids) > MAX_NAMED else fields


# -- metrics

_TOOK, _TRIES = "processing_duration_seconds", "event_retry_attempt_count"
_TOOK_LIMITS, _TRIES_LIMITS = buckets_of(_TOOK), buckets_of(_TRIES)


class Measuring:
    """An observer that counts. Successes come by the thousand: they are added up here until they are read."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._succeeded: dict[str, tuple[Distribution, Distribution]] = {}  # seconds and tries, by service
        metrics.also.append(self._taken)

    def expect(self, services: Iterable[str]) -> None:
        """Begin at 0: a counter that is first seen at 300 would look as if nothing had happened."""
        for service in services:
            self._metrics.increment("events_processed_total", 0, service=service)
            self._metrics.increment("event_duplicates_total", 0, service=service)
            self._metrics.increment("events_expired_total", 0, service=service)
            for reason in Reason:
                self._metrics.increment("event_retry_dlq_total", 0, service=service, reason=str(reason))

    def __call__(self, signal: AnySignal) -> None:
        metrics = self._metrics
        if isinstance(signal, Finished):
            service, seconds, tries = signal.service, signal.seconds, signal.tries
            with self._lock:
                seen = self._succeeded.get(service)
                if seen is None:
                    seen = self._succeeded[service] = (Distribution.of(_TOOK), Distribution.of(_TRIES))
                took, tried = seen
                took.counts[bisect_left(_TOOK_LIMITS, seconds)] += 1
                took.sum += seconds
                tried.counts[bisect_left(_TRIES_LIMITS, tries)] += 1
                tried.sum += tries
            if signal.duplicates:
                metrics.increment("event_duplicates_total", signal.duplicates, service=service)
            if signal.retried_for is not None:
                metrics.increment("event_retry_success_total", service=service, attempt=attempt_label(tries))
                metrics.observe("event_retry_latency_seconds", signal.retried_for, service=service)
        elif isinstance(signal, Retried | SetAside | GaveUp):
            metrics.increment("failures_total", service=signal.service, error_type=signal.error_type or "unknown")
            if isinstance(signal, GaveUp):
                metrics.increment("event_retry_dlq_total", service=signal.service, reason=signal.reason)
                metrics.observe(_TRIES, signal.tries, service=signal.service)

        elif isinstance(signal, NeverTried):
            metrics.increment("events_expired_total", service=signal.service)

    def _taken(self) -> Counted:
        with self._lock:
            succeeded, self._succeeded = self._succeeded, {}
        counted = Counted()
        for service, (took, tried) in succeeded.items():
            labels = (("service", service),)
            counted.counters["events_processed_total", labels] = float(sum(took.counts))
            counted.histograms[_TOOK, labels] = took
            counted.histograms[_TRIES, labels] = tried
        return counted
