"""Every metric of Onward's own, with its kind and its labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]


@dataclass(frozen=True, slots=True)
class Metric:
    """A name that others rely on."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()


_METRICS = (
    # What the retry job has done, from the totals that the store keeps.
    Metric("retry_job_documents_requeued_total", "counter", "Documents put back.", ("collection",)),
    Metric(
        "retry_job_documents_skipped_backoff_total",
        "counter",
        "Documents that a full run found waiting for their backoff.",
        ("collection",),
    ),
    Metric(
        "retry_job_documents_max_retries_exceeded_total",
        "counter",
        "Documents given up after their last round.",
        ("collection",),
    ),
    Metric("retry_job_runs_total", "counter", "Runs of the retry job: success or failure.", ("status",)),
    Metric("retry_job_errors_total", "counter", "What could not be put back, and why.", ("error_type",)),
    Metric("retry_job_stuck_documents", "gauge", "Documents that are stuck now.", ("collection",)),
    Metric("retry_job_failed_documents", "gauge", "Documents given up after all their rounds.", ("collection",)),
    Metric("retry_job_last_success_timestamp_seconds", "gauge", "When a full run last went well."),
    Metric("retry_job_duration_seconds", "histogram", "How long full runs took."),
    # What worker processes have seen.
    Metric("events_processed_total", "counter", "Calls of handlers whose work was committed.", ("service",)),
    Metric("failures_total", "counter", "Tries that failed.", ("service", "error_type")),
    Metric("processing_duration_seconds", "histogram", "How long successful calls took.", ("service",)),
    Metric(
        "event_retry_success_total",
        "counter",
        "Events that succeeded after one or more failed tries, by the number of the try.",
        ("service", "attempt"),
    ),
    Metric(
        "event_retry_latency_seconds",
        "histogram",
        "From the first failure of an event to its success.",
        ("service",),
    ),
    Metric("event_retry_dlq_total", "counter", "Events that became dead letters.", ("service", "reason")),
    Metric("event_retry_attempt_count", "histogram", "Tries that an event took, whatever its end.", ("service",)),
    Metric(
        "event_duplicates_total", "counter", "Events that waited already, and were not put twice.", ("service",)
    ),
    Metric("chunks_created_total", "counter", "Chunks that the pipeline has made."),
    Metric("chunk_size_tokens", "histogram", "Tokens in a chunk."),
    # The present state of the store.
    Metric("queue_depth", "gauge", "Events of a service that wait or are under way.", ("queue",)),
    Metric("queue_oldest_seconds", "gauge", "For how long the oldest due event has waited.", ("queue",)),
    Metric("failed_queue_messages", "gauge", "Dead letters in a failed queue.", ("queue",)),
    Metric("failed_batches", "gauge", "Failed batches of a source.", ("project",)),
    Metric("failed_batches_persistent", "gauge", "Failed batches that have been retried many times."),
    Metric("failed_batch_retries", "histogram", "Retries that a failed batch took until it was whole again."),
    Metric("failed_batch_recovery_seconds", "histogram", "From the beginning of a failed batch to its end."),
    Metric("documents", "gauge", "Documents by where they stand.", ("collection", "status")),
    Metric("breaker_open", "gauge", "1 while a dependency is taken to be down.", ("dependency",)),
    Metric(
        "breaker_failing_seconds",
        "gauge",
        "For how long a dependency has failed, on and off; 0: it works.",
        ("dependency",),
    ),
    Metric("breaker_openings", "gauge", "How often a breaker opened in the present episode.", ("dependency",)),
    Metric("workers_alive", "gauge", "Worker processes that have been heard of lately."),
    Metric("disk_free_bytes", "gauge", "Free space where the data is kept."),
)

CATALOGUE: Mapping[str, Metric] = {metric.name: metric for metric in _METRICS}

COUNTED = frozenset(
    name
    for name in CATALOGUE
    if name.startswith(("event_", "events_", "failures_", "processing_", "chunk_", "chunks_"))
)
"""Metrics that processes count. The others are read from the store, and no process may record them."""
