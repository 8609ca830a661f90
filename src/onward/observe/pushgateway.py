"""Pushes metrics to a Pushgateway, for runs that end before a scrape. Needs prometheus-client."""

from __future__ import annotations

import json
import logging
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import basic_auth_handler, default_handler, push_to_gateway
from prometheus_client.registry import Collector

from onward.model.metric_catalogue import buckets_of
from onward.observe.prometheus import ProcessCollector
from onward.observe.store_metrics import StoreCollector, stored_totals
from onward.retry import redact
from onward.runtime.metrics import Counted, Distribution, Labels, Metrics

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

PUSH_SECONDS = 15.0
TIMEOUT_SECONDS = 5.0
JOB = "onward"
_TOTALS_PREFIX = "pushed:"
"""The prefix of the names of the store's totals that belong to pushed metrics."""


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
        self._login = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else ()
        self.instance = instance or socket.gethostname()
        self._unsaved = Metrics()
        """What was counted and is not stored yet, because the store may be unavailable."""
        self._last_problem = ""
        self._lock = threading.Lock()
        self._pending: tuple[float, Counted] | None = None
        """The sums of a transaction whose outcome is not known, and the number it was stored under."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onward-push", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Push for the last time."""
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
            return self._push(last=last)

    def _push(self, *, last: bool) -> bool:
        self._unsaved.add(self._metrics.take())
        try:
            self._save()
            self._collector.read()
            registry = CollectorRegistry()
            registry.register(ProcessCollector(self._sums()))
            registry.register(_TotalsCollector(self._store) if last else self._collector)
            push_to_gateway(
                self._address,
                job=JOB,
                registry=registry,
                grouping_key={"instance": self.instance},
                timeout=TIMEOUT_SECONDS,
                handler=self._send,
            )
        except Exception as error:  # the gateway or the store is unavailable: the work goes on
            problem = redact(f"{type(error).__name__}: {error}")
            if problem != self._last_problem:
                log.warning("metrics cannot be pushed to %s: %s", redact(self._url), problem)
            self._last_problem = problem
            return False
        self._last_problem = ""
        return True

    def _send(
        self, url: str, method: str, timeout: float | None, headers: list[tuple[str, str]], data: bytes
    ) -> Callable[[], None]:
        if not self._login:
            return default_handler(url, method, timeout, headers, data)
        return basic_auth_handler(url, method, timeout, headers, data, *self._login)

    def _save(self) -> None:
        if self._pending is not None:
            self._save_pending(*self._pending)
        counted = self._unsaved.take()
        self._unsaved.add(Counted(gauges=counted.gauges))
        self._pending = (float(random.getrandbits(52)), Counted(counted.counters, counted.histograms))
        self._save_pending(*self._pending)

    def _save_pending(self, number: float, counted: Counted) -> None:
        name = _TOTALS_PREFIX + self.instance

        def save() -> None:
            if self._store.totals().get(f"{name}:last", {}).get("") == number:
                return  # the earlier transaction was committed, though the connection was lost
            for (metric, labels), by in counted.counters.items():
                self._store.count(name, _key(metric, labels, ""), by)
            for (metric, labels), seen in counted.histograms.items():
                for place, count in enumerate(seen.counts):
                    if count:
                        self._store.count(name, _key(metric, labels, str(place)), count)
                self._store.count(name, _key(metric, labels, "sum"), seen.sum)
            self._store.set_gauge(f"{name}:last", "", number)

        if counted:
            self._store.atomically(save)
        self._pending = None

    def _sums(self) -> Metrics:
        """Return all that this instance has counted, in this run and before."""
        sums = Metrics()
        sums.add(_read_sums(self._store.totals().get(_TOTALS_PREFIX + self.instance, {})))
        sums.add(Counted(gauges=self._unsaved.counted().gauges))
        return sums


class _TotalsCollector(Collector):
    """Collects what the retry job has stored, without the gauges of the store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return stored_totals(self._store.totals())


def _key(metric: str, labels: Labels, part: str) -> str:
    return json.dumps([metric, labels, part], separators=(",", ":"))


def _read_sums(totals: Mapping[str, float]) -> Counted:
    """Return counters and histograms from the store's totals, by `_key`."""
    counted = Counted()
    for key, value in totals.items():
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
    return counted
