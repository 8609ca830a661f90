"""Every metric of Onward's own, with its kind and its labels; and the buckets of histograms."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A name that others rely on."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


def _metric(kind: Kind, name: str, help: str, *labels: str) -> Metric:
    return Metric(name, kind, help, labels)


_counter = partial(_metric, "counter")
_gauge = partial(_metric, "gauge")
_histogram = partial(_metric, "histogram")
_METRICS = (
    # What the retry job has done, from the totals that the store keeps.
    _counter("retry_job_documents_requeued_total", "Documents put back.", "collection"),
    _counter(
        "retry_job_documents_skipped_backoff_total",
        "Documents that a full run skipped because their backoff had not elapsed.",
        "collection",
    ),
    _counter(
        "retry_job_documents_max_retries_exceeded_total",
        "Documents given up after their last round.",
        "collection",
    ),
    _counter("retry_job_runs_total", "Runs of the retry job: success or failure.", "status"),
    _counter("retry_job_errors_total", "What could not be put back, and why.", "error_type"),
    _gauge("retry_job_stuck_documents", "Documents that are stuck now.", "collection"),
    _gauge("retry_job_failed_documents", "Documents given up after all their rounds.", "collection"),
    _gauge("retry_job_last_success_timestamp_seconds", "When a full run last went well."),
    _histogram("retry_job_duration_seconds", "How long full runs took."),
    # From the totals, too: what people had closed, and came back.
    _counter(
        "failure_group_regressions_total", "Failure groups that came back after they were closed.", "service"
    ),
    # What worker processes have seen.
    _counter("events_processed_total", "Calls of handlers whose work was committed.", "service"),
    _counter("failures_total", "Tries that failed.", "service", "error_type"),
    _histogram("processing_duration_seconds", "How long successful calls took.", "service"),
    _counter(
        "event_retry_success_total",
        "Events that succeeded after one or more failed tries, by the number of the try.",
        "service",
        "attempt",
    ),
    _histogram("event_retry_latency_seconds", "From the first failure of an event to its success.", "service"),
    _counter("event_retry_dlq_total", "Events that became dead letters.", "service", "reason"),
    _histogram("event_retry_attempt_count", "Tries that an event took, whatever its end.", "service"),
    _counter("events_expired_total", "Events whose deadline passed before their first try.", "service"),
    _counter("event_duplicates_total", "Events that waited already, and were not put twice.", "service"),
    _counter("chunks_created_total", "Chunks that the pipeline has made."),
    _histogram("chunk_size_tokens", "Tokens in a chunk."),
    # The present state of the store.
    _gauge("queue_depth", "Events of a service that wait or are under way.", "queue"),
    _gauge("queue_oldest_seconds", "For how long the oldest due event has waited.", "queue"),
    _gauge("failed_queue_messages", "Dead letters in a failed queue.", "queue"),
    _gauge("failed_batches", "Failed batches of a source.", "project"),
    _gauge("failed_batches_persistent", "Failed batches that have been retried many times."),
    _gauge("failed_batches_by_retries", "Failed batches by how often each was retried.", "retries"),
    _histogram("failed_batch_retries", "Retries that a failed batch took until it was whole again."),
    _histogram("failed_batch_recovery_seconds", "From the beginning of a failed batch to its end."),
    _gauge("documents", "Documents by where they stand.", "collection", "status"),
    _gauge("breaker_open", "1 while a dependency is taken to be down.", "dependency"),
    _gauge(
        "breaker_failing_seconds", "For how long a dependency has failed, on and off; 0: it works.", "dependency"
    ),
    _gauge("breaker_openings", "How often a breaker opened in the present episode.", "dependency"),
    _gauge("workers_alive", "Worker processes that have been heard of lately."),
    _gauge("outbox_lag_seconds", "For how long the oldest event in the outbox has waited; 0: none waits."),
    _gauge("disk_free_bytes", "Free space where the data is kept."),
)

CATALOGUE: Mapping[str, Metric] = {metric.name: metric for metric in _METRICS}

# Metrics that processes count. The others are read from the store, and no process may record them.
_COUNTED = ("event_", "events_", "failures_", "processing_", "chunk_", "chunks_")
COUNTED = frozenset(name for name in CATALOGUE if name.startswith(_COUNTED))

SECONDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 600.0)
LONG_SECONDS = (0.25, 1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 21600.0, 86400.0)
TIMES = (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 8.0, 10.0, 15.0, 20.0, 50.0)
TOKENS = (16.0, 32.0, 64.0, 128.0, 192.0, 256.0, 320.0, 384.0, 448.0, 512.0, 1024.0)
# Upper limits of histograms that do not measure short times.
BUCKETS: Mapping[str, Sequence[float]] = {
    "event_retry_latency_seconds": LONG_SECONDS,
    "event_retry_attempt_count": TIMES,
    "failed_batch_retries": TIMES,
    "failed_batch_recovery_seconds": (*LONG_SECONDS, 604_800.0),
    "chunk_size_tokens": TOKENS,
}


def buckets_of(name: str) -> Sequence[float]:
    """Return the upper limits of a histogram's buckets, without the last bucket, which has none."""
    return BUCKETS.get(name, SECONDS)


def bucket_label(name: str, value: float) -> str:
    """Return the label of a value's bucket in the store's totals: its upper limit."""
    limits = buckets_of(name)
    place = bisect_left(limits, value)
    return f"le:{limits[place]:g}" if place < len(limits) else "le:inf"
