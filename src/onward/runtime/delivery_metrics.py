"""Turning what happens to deliveries into metrics."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

from onward.model.metric_catalogue import buckets_of
from onward.retry import Reason
from onward.runtime.metrics import Counted, Distribution, Metrics
from onward.runtime.observers import AnySignal, Finished, GaveUp, Retried, SetAside, Signal

MOST_TRIES = 20  # tries that are told apart in a label
_TOOK, _TRIES = "processing_duration_seconds", "event_retry_attempt_count"
_TOOK_LIMITS, _TRIES_LIMITS = buckets_of(_TOOK), buckets_of(_TRIES)


def _empty(name: str) -> Distribution:
    return Distribution([0] * (len(buckets_of(name)) + 1))


@dataclass(slots=True)
class _Succeeded:
    """Successes of a service since they were last read."""

    calls: int = 0
    took: Distribution = field(default_factory=lambda: _empty(_TOOK))
    tries: Distribution = field(default_factory=lambda: _empty(_TRIES))


class Measuring:
    """An observer that counts. Successes come by the thousand: they are added up here until they are read."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._lock = threading.Lock()
        self._succeeded: dict[str, _Succeeded] = {}
        metrics.also(self._taken)

    def expect(self, services: Iterable[str]) -> None:
        """Begin at 0: what is first heard of at 300 would look as if nothing had happened."""
        for service in services:
            self._metrics.increment("events_processed_total", 0, service=service)
            self._metrics.increment("event_duplicates_total", 0, service=service)
            for reason in Reason:
                self._metrics.increment("event_retry_dlq_total", 0, service=service, reason=str(reason))

    def __call__(self, signal: AnySignal) -> None:
        if isinstance(signal, Finished):
            self._finished(signal)
        elif isinstance(signal, Retried | SetAside):
            self._failed(signal, signal.error_type)
        elif isinstance(signal, GaveUp):
            self._gave_up(signal)

    def _finished(self, signal: Finished) -> None:
        with self._lock:
            seen = self._succeeded.get(signal.service)
            if seen is None:
                seen = self._succeeded[signal.service] = _Succeeded()
            seen.calls += 1
            seen.took.counts[bisect_left(_TOOK_LIMITS, signal.seconds)] += 1
            seen.took.sum += signal.seconds
            seen.tries.counts[bisect_left(_TRIES_LIMITS, signal.tries)] += 1
            seen.tries.sum += signal.tries
        if signal.duplicates:
            self._metrics.increment("event_duplicates_total", signal.duplicates, service=signal.service)
        if signal.retried_for is not None:
            attempt = str(signal.tries) if signal.tries <= MOST_TRIES else "more"
            self._metrics.increment("event_retry_success_total", service=signal.service, attempt=attempt)
            self._metrics.observe("event_retry_latency_seconds", signal.retried_for, service=signal.service)

    def _taken(self) -> Counted:
        with self._lock:
            succeeded, self._succeeded = self._succeeded, {}
        counted = Counted()
        for service, seen in succeeded.items():
            labels = (("service", service),)
            counted.counters["events_processed_total", labels] = float(seen.calls)
            counted.histograms[_TOOK, labels] = seen.took
            counted.histograms[_TRIES, labels] = seen.tries
        return counted

    def _gave_up(self, signal: GaveUp) -> None:
        self._failed(signal, signal.error_type)
        self._metrics.increment("event_retry_dlq_total", service=signal.service, reason=signal.reason)
        self._metrics.observe(_TRIES, signal.tries, service=signal.service)

    def _failed(self, signal: Signal, error_type: str) -> None:
        self._metrics.increment("failures_total", service=signal.service, error_type=error_type or "unknown")
