"""Pushes metrics to a Pushgateway, for runs that end before a scrape. Needs prometheus-client."""

from __future__ import annotations

import json
import logging
import random
import socket
import threading
from functools import partial
from typing import TYPE_CHECKING
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import basic_auth_handler, default_handler, push_to_gateway

from onward.model.metric_catalogue import buckets_of
from onward.observe.prometheus import ProcessCollector, StoreCollector, TotalsCollector
from onward.retry import redact
from onward.runtime.metrics import Counted, Distribution, Labels, Metrics

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

PUSH_SECONDS = 15.0
TIMEOUT_SECONDS = 5.0
JOB = "onward"


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
            job=JOB,
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
