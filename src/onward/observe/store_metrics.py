"""The metrics of a store: queues, dead letters, batches, breakers, totals. Needs prometheus-client."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from onward.ledger.store_errors import StoreError
from onward.model.documents import Status
from onward.model.metric_catalogue import CATALOGUE, buckets_of
from onward.retry import Ladder, redact
from onward.runtime.metrics import MOST_SERIES, OTHER
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

FRESH_SECONDS = 5.0
"""Values are read again when they are older than this."""
WAIT_SECONDS = 3.0
"""A scrape waits this long for new values."""
STALE_SECONDS = 15.0
"""Values older than this are not reported: no number is better than a wrong one."""
_STORED_HISTOGRAMS = ("retry_job_duration_seconds", "failed_batch_retries", "failed_batch_recovery_seconds")


class StoreCollector(Collector):
    """Collects gauges and totals of a store; none while the store is unavailable."""

    def __init__(
        self, store: Store, ladder: Callable[[], Ladder], *, services: Sequence[str] = (), disk: Path | None = None
    ) -> None:
        self._store = store
        self._ladder = ladder
        self._services = services
        self._disk = disk
        self._changed = threading.Condition()
        self._wanted = self._stopped = False
        self._values: list[Metric] = []
        self._read_at = float("-inf")
        self._failed = False
        # One thread reads: each scrape has a thread of its own, which must not wait for a locked store.
        self._reader = threading.Thread(target=self._run, name="onward-store-metrics", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def describe(self) -> Iterable[Metric]:
        return []  # else `collect` would be called when it is registered

    def collect(self) -> Iterator[Metric]:
        with self._changed:
            if not self._is_newer_than(FRESH_SECONDS) and self._reader.is_alive():
                self._wanted = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_newer_than(FRESH_SECONDS), WAIT_SECONDS)
            values = list(self._values) if self._is_newer_than(STALE_SECONDS) else []
        yield from values
        yield from self._disk_metrics()

    def _is_newer_than(self, seconds: float) -> bool:
        return time.monotonic() - self._read_at < seconds

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._wanted or self._stopped)
                if self._stopped:
                    return
                self._wanted = False
            self.read()

    def read(self) -> None:
        """Read the store."""
        try:
            values = list(self._store_metrics())
            self._failed = False
        except Exception as error:
            values = []
            if not self._failed:
                problem = str(error) if isinstance(error, StoreError) else type(error).__name__
                log.warning("the metrics of the store cannot be read: %s", problem)
            self._failed = True
        with self._changed:
            self._values, self._read_at = values, time.monotonic()
            self._changed.notify_all()

    def _store_metrics(self) -> Iterator[Metric]:
        store, now = self._store, self._store.now()
        yield from stored_totals(store.totals())
        subscriptions = store.subscriptions()
        failed_queues = {subscription.service: subscription.failed_queue for subscription in subscriptions}
        queues = store.queues(sorted({*failed_queues, *self._services}))
        yield _gauge("queue_depth", {queue.service: queue.waiting + queue.claimed for queue in queues})
        yield _gauge("queue_oldest_seconds", {queue.service: _age(queue.oldest_due, now) for queue in queues})
        dead: Counter[str] = Counter()
        for queue in queues:
            dead[failed_queues.get(queue.service, queue.service)] += queue.dead
        yield _gauge("failed_queue_messages", dead)
        batches = store.failed_batches()
        policy = self._ladder().failed_batch
        yield _gauge("failed_batches", Counter(redact(batch.source or "") for batch in batches))
        yield _gauge("failed_batches_persistent", sum(policy.persistent(batch.retry_count) for batch in batches))
        closed = {name: 0.0 for subscription in subscriptions for name in subscription.needs}
        breakers = store.breakers()
        failing = {breaker.dependency: _age(breaker.failing_since, now) for breaker in breakers}
        yield _gauge("breaker_open", closed | {breaker.dependency: float(breaker.open) for breaker in breakers})
        yield _gauge("breaker_failing_seconds", closed | failing)
        openings = {breaker.dependency: float(breaker.openings) for breaker in breakers}
        yield _gauge("breaker_openings", closed | openings)
        yield _gauge("workers_alive", len(alive_workers(store)))
        about = CATALOGUE["documents"]
        documents = GaugeMetricFamily("documents", about.help, labels=about.labels)
        for collection, counts in sorted(store.document_counts().items()):
            for status in {*map(str, Status), *counts}:
                documents.add_metric([collection, status], counts.get(status, 0))
        yield documents

    def _disk_metrics(self) -> Iterator[Metric]:
        if self._disk is not None:
            try:
                yield _gauge("disk_free_bytes", shutil.disk_usage(self._disk).free)
            except OSError as error:
                log.debug("the free space cannot be measured: %s", error)


def _age(since: float | None, now: float) -> float:
    return 0.0 if since is None else max(0.0, now - since)


def _gauge(name: str, values: float | Mapping[str, float]) -> Metric:
    about = CATALOGUE[name]
    family = GaugeMetricFamily(name, about.help, labels=about.labels)
    if not isinstance(values, Mapping):
        family.add_metric([], float(values))
        return family
    largest = sorted(values.items(), key=lambda item: -item[1])
    for label, value in sorted(largest[:MOST_SERIES]):
        family.add_metric([label], float(value))
    if rest := largest[MOST_SERIES:]:
        family.add_metric([OTHER], float(sum(value for _, value in rest)))
    return family


def stored_totals(totals: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Return what the retry job has stored; the counter of its runs starts at 0."""
    for name, about in CATALOGUE.items():
        stored = totals.get(name, {})
        if about.kind == "histogram":
            if name in _STORED_HISTOGRAMS:
                yield _stored_histogram(name, stored)
        elif name == "retry_job_last_success_timestamp_seconds":
            if stored:  # without a success there is no time, not the year 1970
                yield _gauge(name, stored[""])
        elif name.startswith("retry_job_") and about.kind == "gauge":
            yield _gauge(name, stored)
        elif name.startswith("retry_job_"):
            family = CounterMetricFamily(name, about.help, labels=about.labels)
            start = {"success": 0.0, "failure": 0.0} if name == "retry_job_runs_total" else {}
            for label, value in (start | dict(stored)).items():
                family.add_metric([label], value)
            yield family


def _stored_histogram(name: str, stored: Mapping[str, float]) -> Metric:
    family = HistogramMetricFamily(name, CATALOGUE[name].help)
    total, buckets = 0.0, []
    for limit in buckets_of(name):
        total += stored.get(f"le:{limit:g}", 0.0)
        buckets.append((f"{limit:g}", total))
    buckets.append(("+Inf", total + stored.get("le:inf", 0.0)))
    family.add_metric([], buckets, stored.get("sum", 0.0))
    return family
