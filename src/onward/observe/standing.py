"""How things stand in the store, read when somebody asks: queues, dead letters, batches, breakers, totals."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector

from onward.model.buckets import buckets_of
from onward.model.catalogue import CATALOGUE
from onward.model.documents import Status
from onward.ports import Store, StoreError
from onward.retry import Ladder, redact
from onward.runtime.metrics import MOST_SERIES, OTHER

log = logging.getLogger("onward")

FRESH = 5.0
"""Seconds for which an answer holds: several may ask, and the store has other things to do."""
PATIENCE, STALE = 3.0, 15.0
"""Seconds that whoever asks waits for a new answer; and from when on an old one is no longer told."""


class Standing(Collector):
    """Gauges and totals of a store. While it does not answer there are none: better no number than a wrong one."""

    def __init__(
        self, store: Store, ladder: Callable[[], Ladder], *, services: Sequence[str] = (), disk: Path | None = None
    ) -> None:
        self._store = store
        self._ladder = ladder
        self._services = services
        self._disk = disk
        self._news = threading.Condition()
        self._wanted = self._stopped = False
        self._read: list[Metric] = []
        self._read_at = float("-inf")
        self._away = False
        # One thread that reads: whoever asks has one of his own, and must not wait for a store that is locked.
        self._reader = threading.Thread(target=self._run, name="onward-standing", daemon=True)

    def start(self) -> None:
        self._reader.start()

    def stop(self) -> None:
        with self._news:
            self._stopped = True
            self._news.notify_all()

    def describe(self) -> Iterable[Metric]:
        return []  # or it would be asked for its values when it is registered

    def collect(self) -> Iterator[Metric]:
        with self._news:
            if not self._is_fresh(FRESH) and self._reader.is_alive():
                self._wanted = True
                self._news.notify_all()
                self._news.wait_for(lambda: self._is_fresh(FRESH), PATIENCE)
            found = list(self._read) if self._is_fresh(STALE) else []
        yield from found
        yield from self._of_machine()

    def _is_fresh(self, seconds: float) -> bool:
        return time.monotonic() - self._read_at < seconds

    def _run(self) -> None:
        while True:
            with self._news:
                self._news.wait_for(lambda: self._wanted or self._stopped)
                if self._stopped:
                    return
                self._wanted = False
            self.read()

    def read(self) -> None:
        """Ask the store."""
        try:
            found = list(self._of_store())
            self._away = False
        except Exception as error:
            found = []
            if not self._away:
                problem = str(error) if isinstance(error, StoreError) else type(error).__name__
                log.warning("how things stand cannot be measured: %s", problem)
            self._away = True
        with self._news:
            self._read, self._read_at = found, time.monotonic()
            self._news.notify_all()

    def _of_store(self) -> Iterator[Metric]:
        store, now = self._store, self._store.now()
        yield from kept_totals(store.totals())
        known = store.subscriptions()
        failed_queues = {one.service: one.failed_queue for one in known}
        queues = store.queues(sorted({*failed_queues, *self._services}))
        yield _gauge("queue_depth", {one.service: one.waiting + one.claimed for one in queues})
        yield _gauge("queue_oldest_seconds", {one.service: _age(one.oldest_due, now) for one in queues})
        dead: Counter[str] = Counter()
        for one in queues:
            dead[failed_queues.get(one.service, one.service)] += one.dead
        yield _gauge("failed_queue_messages", dead)
        yield _gauge("outbox_lag_seconds", max((_age(one.oldest_unannounced, now) for one in queues), default=0.0))
        batches = store.failed_batches()
        policy = self._ladder().failed_batch
        yield _gauge("failed_batches", Counter(redact(one.source or "") for one in batches))
        yield _gauge("failed_batches_persistent", sum(policy.persistent(one.retry_count) for one in batches))
        needed = {name: 0.0 for one in known for name in one.needs}
        yield _gauge("breaker_open", needed | {one.dependency: float(one.open) for one in store.breakers()})
        yield _gauge("workers_alive", len(store.workers()))
        documents = GaugeMetricFamily(
            "documents", CATALOGUE["documents"].help, labels=CATALOGUE["documents"].labels
        )
        for collection, counts in sorted(store.document_counts().items()):
            for status in {*map(str, Status), *counts}:
                documents.add_metric([collection, status], counts.get(status, 0))
        yield documents

    def _of_machine(self) -> Iterator[Metric]:
        if self._disk is not None:
            try:
                yield _gauge("disk_free_bytes", shutil.disk_usage(self._disk).free)
            except OSError as error:
                log.debug("the free space cannot be measured: %s", error)


def _age(since: float | None, now: float) -> float:
    return 0.0 if since is None else max(0.0, now - since)


def _gauge(name: str, values: float | Mapping[str, float]) -> Metric:
    about = CATALOGUE[name]
    found = GaugeMetricFamily(name, about.help, labels=about.labels)
    if not isinstance(values, Mapping):
        found.add_metric([], float(values))
        return found
    largest = sorted(values.items(), key=lambda one: -one[1])
    for label, value in sorted(largest[:MOST_SERIES]):
        found.add_metric([label], float(value))
    if rest := largest[MOST_SERIES:]:
        found.add_metric([OTHER], float(sum(value for _, value in rest)))
    return found


def kept_totals(totals: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """What the retry job has added up; a counter that nothing was counted for yet begins at 0."""
    for name, about in CATALOGUE.items():
        kept = totals.get(name, {})
        if about.kind == "histogram":
            if name in _KEPT_HISTOGRAMS:
                yield kept_histogram(name, kept)
        elif name == "retry_job_last_success_timestamp_seconds":
            if kept:  # the time of nothing is not the year 1970
                yield _gauge(name, kept[""])
        elif name.startswith("retry_job_") and about.kind == "gauge":
            yield _gauge(name, kept)
        elif name.startswith("retry_job_"):
            found = CounterMetricFamily(name, about.help, labels=about.labels)
            beginning = {"success": 0.0, "failure": 0.0} if name == "retry_job_runs_total" else {}
            for label, value in (beginning | dict(kept)).items():
                found.add_metric([label], value)
            yield found


_KEPT_HISTOGRAMS = ("retry_job_duration_seconds", "failed_batch_retries", "failed_batch_recovery_seconds")


def kept_histogram(name: str, kept: Mapping[str, float]) -> Metric:
    """A histogram from the store's totals."""
    found = HistogramMetricFamily(name, CATALOGUE[name].help)
    cumulated, buckets = 0.0, []
    for limit in buckets_of(name):
        cumulated += kept.get(f"le:{limit:g}", 0.0)
        buckets.append((f"{limit:g}", cumulated))
    buckets.append(("+Inf", cumulated + kept.get("le:inf", 0.0)))
    found.add_metric([], buckets, kept.get("sum", 0.0))
    return found
