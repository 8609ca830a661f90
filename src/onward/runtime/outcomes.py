"""What became of calls, reported after the commit: in the log, to observers, and as metrics."""

from __future__ import annotations

import logging
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.model.failures import Failure
from onward.model.ledger import Charge, CommitResult, CommitStatus, DeadLettered, InFailedBatch, Processed
from onward.model.metric_catalogue import buckets_of
from onward.retry import Reason
from onward.runtime.metrics import Counted, Distribution, Metrics
from onward.runtime.tracing import parent_of

if TYPE_CHECKING:
    from onward.model.ledger import RetryLater
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
    for item, result in done:
        if result.status is not CommitStatus.COMMITTED:
            name = item.of.service.name
            log.info("%s: a work was dropped, its delivery is %s", name, result.status)
            hooks(Dropped(name, item.settlement.row, tuple(item.of.ids), result.status))
        elif item.reply is None:  # a checkpoint is no outcome
            report_outcome(hooks, item, result)


def report_outcome(hooks: Hooks, item: FinishedCall, result: CommitResult) -> None:
    """Log and signal what a call, or the opening of a delivery, led to."""
    of, settlement, delivery = item.of, item.settlement, item.of.delivery
    name, row = of.service.name, settlement.row
    tries = delivery.tries + delivery.not_ready + 1
    for part in settlement.parts if result.parts is None else result.parts:
        ids = tuple(part.ids)
        if isinstance(part, Processed):
            if hooks.observers and (ids or not of.ids):
                failed_at = delivery.failed_at
                retried_for = None if failed_at is None else max(0.0, of.opened.context.now() - failed_at)
                hooks(Finished(name, row, ids, of.seconds, tries, result.duplicates, retried_for))
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


def _log_failure(
    of: Call | OpenDelivery, part: RetryLater | DeadLettered | InFailedBatch, failure: Failure
) -> None:
    what = f"{of.service.name}: {', '.join(list(part.ids)[:3]) or 'event'}"
    problem = f"{failure.error_type}: {failure.message}"
    fields = log_fields(of, part.ids) | {"error_type": failure.error_type}
    extra = {"onward": fields}
    if isinstance(part, InFailedBatch):
        log.error("%s set aside: %s", what, problem, extra=extra)
    elif isinstance(part, DeadLettered):
        fields["traceback"] = failure.traceback
        log.error("%s given up (%s): %s\n%s", what, part.reason, problem, failure.traceback, extra=extra)
    elif any(part is chance for chance in of.opened.last_chances):
        log.warning("%s failed, again in %.1f s, for the last time: %s", what, part.after, problem, extra=extra)
    elif part.given_back:
        log.info("%s waits for its dependency, uncharged: %s", what, problem, extra=extra)
    else:
        log.info("%s failed, again in %.1f s: %s", what, part.after, problem, extra=extra)


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

MOST_TRIES = 20  # more tries than this have the label `more`
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
                attempt = str(tries) if tries <= MOST_TRIES else "more"
                metrics.increment("event_retry_success_total", service=service, attempt=attempt)
                metrics.observe("event_retry_latency_seconds", signal.retried_for, service=service)
        elif isinstance(signal, Retried | SetAside | GaveUp):
            metrics.increment("failures_total", service=signal.service, error_type=signal.error_type or "unknown")
            if isinstance(signal, GaveUp):
                metrics.increment("event_retry_dlq_total", service=signal.service, reason=signal.reason)
                metrics.observe(_TRIES, signal.tries, service=signal.service)

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
