"""The metrics of processes and of a store, as Prometheus or a Pushgateway gets them. Needs prometheus-client."""

from __future__ import annotations

import json
import logging
import random
import shutil
import socket
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, groupby
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import basic_auth_handler, choose_encoder, default_handler, push_to_gateway
from prometheus_client.registry import Collector

from onward.ledger.store_errors import StoreError
from onward.model.documents import Status
from onward.model.metric_catalogue import CATALOGUE, buckets_of
from onward.retry import Ladder, redact
from onward.runtime.metrics import MOST_SERIES, OTHER, Counted, Distribution, Labels, Metrics, Series
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")
Value = TypeVar("Value")

FRESH_SECONDS = 5.0  # values are read again when they are older than this
WAIT_SECONDS = 3.0  # a scrape waits this long for new values
STALE_SECONDS = 15.0  # values older than this are not reported: no number is better than a wrong one
PUSH_SECONDS = 15.0
TIMEOUT_SECONDS = 5.0
MANY_RETRIES = 10  # failed batches with as many retries or more are counted together
_STORED_HISTOGRAMS = ("retry_job_duration_seconds", "failed_batch_retries", "failed_batch_recovery_seconds")


def render(registry: CollectorRegistry, accept: str) -> tuple[int, str, bytes]:
    """Return the page `/metrics` in the format that an `Accept` header wants."""
    encode, kind = choose_encoder(accept)
    return 200, kind, encode(registry)


class _Collector(Collector):
    def describe(self) -> Iterable[Metric]:
        return []  # else `collect` would be called when it is registered


@dataclass(eq=False)
class ProcessCollector(_Collector):
    """Collects the metrics of this process, and of those that have sent it theirs."""

    metrics: Metrics

    def collect(self) -> Iterator[Metric]:
        return _families(self.metrics.counted())


@dataclass(eq=False)
class TotalsCollector(_Collector):
    """Collects what the retry job has stored, without the gauges of the store."""

    store: Store

    def collect(self) -> Iterator[Metric]:
        return _stored_totals(self.store.totals())


@dataclass(eq=False)
class StoreCollector(_Collector):
    """Collects gauges and totals of a store; none while the store is unavailable."""

    store: Store
    ladder: Callable[[], Ladder]
    services: Sequence[str] = ()
    disk: Path | None = None

    def __post_init__(self) -> None:
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

    def collect(self) -> Iterator[Metric]:
        with self._changed:
            if not self._is_newer_than(FRESH_SECONDS) and self._reader.is_alive():
                self._wanted = True
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_newer_than(FRESH_SECONDS), WAIT_SECONDS)
            values = list(self._values) if self._is_newer_than(STALE_SECONDS) else []
        yield from values
        if self.disk is not None:
            try:
                yield _gauge("disk_free_bytes", shutil.disk_usage(self.disk).free)
            except OSError as error:
                log.debug("the free space cannot be measured: %s", error)

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
        store, now = self.store, self.store.now()

        def age(since: float | None) -> float:
            return 0.0 if since is None else max(0.0, now - since)

        yield from _stored_totals(store.totals())
        subscriptions = store.subscriptions()
        failed_queues = {subscription.service: subscription.failed_queue for subscription in subscriptions}
        queues = store.queues(sorted({*failed_queues, *self.services}))
        yield _gauge("queue_depth", {queue.service: queue.waiting + queue.claimed for queue in queues})
        yield _gauge("queue_oldest_seconds", {queue.service: age(queue.oldest_due) for queue in queues})
        dead: Counter[str] = Counter()
        for queue in queues:
            dead[failed_queues.get(queue.service, queue.service)] += queue.dead
        yield _gauge("failed_queue_messages", dead)
        batches = store.failed_batches()
        policy = self.ladder().failed_batch
        yield _gauge("failed_batches", Counter(redact(batch.source or "") for batch in batches))
        yield _gauge("failed_batches_persistent", sum(policy.persistent(batch.retry_count) for batch in batches))
        retried = Counter(_retries_label(batch.retry_count) for batch in batches)
        yield _gauge(
            "failed_batches_by_retries",
            {_retries_label(n): retried[_retries_label(n)] for n in range(MANY_RETRIES + 1)},
        )
        closed = {name: 0.0 for subscription in subscriptions for name in subscription.needs}
        breakers = {breaker.dependency: breaker for breaker in store.breakers()}
        yield _gauge("breaker_open", closed | {name: float(found.open) for name, found in breakers.items()})
        failing = {name: age(found.failing_since) for name, found in breakers.items()}
        yield _gauge("breaker_failing_seconds", closed | failing)
        openings = {name: float(found.openings) for name, found in breakers.items()}
        yield _gauge("breaker_openings", closed | openings)
        yield _gauge("workers_alive", len(alive_workers(store)))
        yield _gauge("outbox_lag_seconds", age(store.oldest_outgoing()))
        about = CATALOGUE["documents"]
        documents = GaugeMetricFamily("documents", about.help, labels=about.labels)
        # Also the collections that have no documents yet: an alert compares the number now with an earlier one.
        finished: dict[str, dict[str, int]] = {
            subscription.finishes: {} for subscription in subscriptions if subscription.finishes
        }
        for collection, counts in sorted((finished | store.document_counts()).items()):
            for status in {*map(str, Status), *counts}:
                documents.add_metric([collection, status], counts.get(status, 0))
        yield documents


def _retries_label(retries: int) -> str:
    return str(retries) if retries < MANY_RETRIES else f"{MANY_RETRIES}+"


def _families(counted: Counted) -> Iterator[Metric]:
    for kind, values in ((CounterMetricFamily, counted.counters), (GaugeMetricFamily, counted.gauges)):
        for name, label_names, series in _by_name(values):
            family = kind(name, _help(name), labels=label_names)
            for labels, value in series:
                family.add_metric(labels, value)
            yield family
    for name, label_names, distributions in _by_name(counted.histograms):
        histogram = HistogramMetricFamily(name, _help(name), labels=label_names)
        for labels, distribution in distributions:
            histogram.add_metric(labels, _buckets(name, distribution.counts), distribution.sum)
        yield histogram


def _by_name(series: Mapping[Series, Value]) -> Iterator[tuple[str, list[str], list[tuple[list[str], Value]]]]:
    """Group series by metric: its name, the names of its labels, and the label values with their value."""
    for name, group in groupby(sorted(series.items(), key=lambda item: item[0]), key=lambda item: item[0][0]):
        items = list(group)
        label_names = [label for label, _ in items[0][0][1]]
        yield name, label_names, [([text for _, text in labels], value) for (_, labels), value in items]


def _help(name: str) -> str:
    return CATALOGUE[name].help if name in CATALOGUE else "A metric of the app."


def _buckets(name: str, counts: Sequence[float]) -> list[tuple[str, float]]:
    limits = (*(f"{limit:g}" for limit in buckets_of(name)), "+Inf")
    return list(zip(limits, map(float, accumulate(counts)), strict=True))


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


def _stored_totals(totals: Mapping[str, Mapping[str, float]]) -> Iterator[Metric]:
    """Return the totals of the store. Counters of runs, and of the collections that it knows, start at 0."""
    starts: dict[tuple[str, ...], dict[str, float]] = {
        ("status",): {"success": 0.0, "failure": 0.0},
        ("collection",): dict.fromkeys(totals.get("retry_job_stuck_documents", {}), 0.0),
    }
    for name, about in CATALOGUE.items():
        stored = totals.get(name, {})
        if name in _STORED_HISTOGRAMS:
            histogram = HistogramMetricFamily(name, about.help)
            counts = [stored.get(f"le:{limit:g}", 0.0) for limit in (*buckets_of(name), float("inf"))]
            histogram.add_metric([], _buckets(name, counts), stored.get("sum", 0.0))
            yield histogram
        elif name == "retry_job_last_success_timestamp_seconds":
            if stored:  # without a success there is no time, not the year 1970
                yield _gauge(name, stored[""])
        elif name.startswith("retry_job_") and about.kind == "gauge":
            yield _gauge(name, stored)
        elif name.startswith(("retry_job_", "failure_group_")) and about.kind == "counter":
            family = CounterMetricFamily(name, about.help, labels=about.labels)
            for label, value in (starts.get(about.labels, {}) | dict(stored)).items():
                family.add_metric([label], value)
            yield family


# -- pushing, for runs that end before a scrape


class PushgatewayClient:
    """Pushes the counters, added to those of earlier runs of the same instance.

    A counter that starts at 0 in each run is of no use, so the sums are stored, by instance. Processes of one
    instance add to the same sums and push the same sums.
    """

    def __init__(
        self, store: Store, metrics: Metrics, collector: StoreCollector, url: str, *, instance: str | None = None
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._collector = collector
        self._url = url
        parts = urlsplit(url)
        self._address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        name, password = unquote(parts.username or ""), unquote(parts.password or "")
        login = partial(basic_auth_handler, username=name, password=password)
        self._send = login if parts.username else default_handler
        self.instance = instance or socket.gethostname()
        self._totals = f"pushed:{self.instance}"  # the name of the store's totals that keep the sums
        self._unsaved = Metrics()  # what was counted and is not stored yet, because the store may be unavailable
        self._last_problem = ""
        self._lock = threading.Lock()
        # The sums of a transaction whose outcome is not known, and the number it was stored under.
        self._pending: tuple[float, Counted] | None = None
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onward-push", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT_SECONDS)
        self.push(last=True)

    def _run(self) -> None:
        while not self._stopped.wait(PUSH_SECONDS):
            self.push()

    def push(self, *, last: bool = False) -> bool:
        """Push once, and return whether that succeeded; a problem is logged.

        The last push removes the gauges of the store: nobody would update them any more.
        """
        with self._lock:
            try:
                self._push(last=last)
                problem = ""
            except Exception as error:  # the gateway or the store is unavailable: the work goes on
                problem = redact(f"{type(error).__name__}: {error}")
                if problem != self._last_problem:
                    log.warning("metrics cannot be pushed to %s: %s", redact(self._url), problem)
            self._last_problem = problem
            return not problem

    def _push(self, *, last: bool) -> None:
        self._unsaved.add(self._metrics.take())
        self._save_pending()
        counted = self._unsaved.take()
        self._unsaved.add(Counted(gauges=counted.gauges))
        self._pending = (float(random.getrandbits(52)), Counted(counted.counters, counted.histograms))
        self._save_pending()
        self._collector.read()
        registry = CollectorRegistry()
        registry.register(ProcessCollector(self._sums()))
        registry.register(TotalsCollector(self._store) if last else self._collector)
        push_to_gateway(
            self._address,
            job="onward",
            registry=registry,
            grouping_key={"instance": self.instance},
            timeout=TIMEOUT_SECONDS,
            handler=self._send,
        )

    def _save_pending(self) -> None:
        if self._pending is None:
            return
        store, name, (number, counted) = self._store, self._totals, self._pending

        def save() -> None:
            if store.totals().get(f"{name}:last", {}).get("") == number:
                return  # the earlier transaction was committed, though the connection was lost
            for (metric, labels), by in counted.counters.items():
                store.count(name, _key(metric, labels, ""), by)
            for (metric, labels), seen in counted.histograms.items():
                for place, count in enumerate(seen.counts):
                    if count:
                        store.count(name, _key(metric, labels, str(place)), count)
                store.count(name, _key(metric, labels, "sum"), seen.sum)
            store.set_gauge(f"{name}:last", "", number)

        if counted:
            store.atomically(save)
        self._pending = None

    def _sums(self) -> Metrics:
        """Return all that this instance has counted, in this run and before."""
        counted = Counted(gauges=self._unsaved.counted().gauges)
        for key, value in self._store.totals().get(self._totals, {}).items():
            metric, labels, part = json.loads(key)
            series = (metric, tuple((name, text) for name, text in labels))
            if not part:
                counted.counters[series] = value
                continue
            seen = counted.histograms.setdefault(series, Distribution([0] * (len(buckets_of(metric)) + 1)))
            if part == "sum":
                seen.sum = value
            elif int(part) < len(seen.counts):
                seen.counts[int(part)] = int(value)
        sums = Metrics()
        sums.add(counted)
        return sums


def _key(metric: str, labels: Labels, part: str) -> str:
    return json.dumps([metric, labels, part], separators=(",", ":"))
