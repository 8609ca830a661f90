"""Pushing metrics to a Pushgateway, for runs that are over before anybody has asked."""

from __future__ import annotations

import json
import logging
import random
import socket
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from urllib.parse import unquote, urlsplit, urlunsplit

from prometheus_client import CollectorRegistry
from prometheus_client.core import Metric
from prometheus_client.exposition import basic_auth_handler, default_handler, push_to_gateway
from prometheus_client.registry import Collector

from onward.model.buckets import buckets_of
from onward.observe.exposing import CountedHere
from onward.observe.standing import Standing, kept_totals
from onward.ports import Store
from onward.retry import redact
from onward.runtime.metrics import Counted, Distribution, Labels, Metrics

log = logging.getLogger("onward")

EVERY = 15.0
TIMEOUT = 5.0
JOB = "onward"
_KEPT = "pushed:"
"""What the names of totals begin with that were counted for pushing."""


class Pushing:
    """Pushes what was counted, added to what earlier runs of the same instance have counted.

    A counter that begins at 0 with each run says nothing: so the sums are kept in the store, by instance.
    Processes of one instance add to the same sums, and push the same; none takes away what another has said.
    """

    def __init__(
        self, store: Store, metrics: Metrics, standing: Standing, url: str, *, instance: str | None = None
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._standing = standing
        self._url = url
        parts = urlsplit(url)
        self._address = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        self._login = (unquote(parts.username or ""), unquote(parts.password or "")) if parts.username else ()
        self.instance = instance or socket.gethostname()
        self._unsaved = Metrics()
        """Counted, but not yet in the store: it may be away."""
        self._failing = ""
        self._pushing = threading.Lock()
        self._pending: tuple[float, Counted] | None = None
        """What was being saved when the store went away, and under which number: it may have been saved."""
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="onward-push", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Push for the last time."""
        self._stopped.set()
        if self._thread.is_alive():
            self._thread.join(2 * TIMEOUT)
        self.push(last=True)

    def _run(self) -> None:
        while not self._stopped.wait(EVERY):
            self.push()

    def push(self, *, last: bool = False) -> bool:
        """Push once. What goes wrong is logged, and fails nothing.

        The last push takes away how things stood: nobody will say when that has changed.
        """
        with self._pushing:
            return self._push(last=last)

    def _push(self, *, last: bool) -> bool:
        self._unsaved.add(self._metrics.take())
        try:
            self._save()
            registry = CollectorRegistry()
            self._standing.read()
            registry.register(CountedHere(self._sums()))
            registry.register(_Kept(self._store) if last else self._standing)
            push_to_gateway(
                self._address,
                job=JOB,
                registry=registry,
                grouping_key={"instance": self.instance},
                timeout=TIMEOUT,
                handler=self._send,
            )
        except Exception as error:  # a gateway that is away, a store that is: the work goes on
            problem = redact(f"{type(error).__name__}: {error}")
            if problem != self._failing:
                log.warning("metrics cannot be pushed to %s: %s", redact(self._url), problem)
            self._failing = problem
            return False
        self._failing = ""
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
        name = _KEPT + self.instance

        def save() -> None:
            if self._store.totals().get(f"{name}:last", {}).get("") == number:
                return  # it was saved, only the answer was lost
            for (metric, labels), by in counted.counters.items():
                self._store.count(name, _label(metric, labels, ""), by)
            for (metric, labels), seen in counted.histograms.items():
                for place, count in enumerate(seen.counts):
                    if count:
                        self._store.count(name, _label(metric, labels, str(place)), count)
                self._store.count(name, _label(metric, labels, "sum"), seen.sum)
            self._store.set_gauge(f"{name}:last", "", number)

        if counted:
            self._store.atomically(save)
        self._pending = None

    def _sums(self) -> Metrics:
        """All that this instance has ever counted."""
        sums = Metrics()
        kept = self._store.totals().get(_KEPT + self.instance, {})
        sums.add(read_sums(kept))
        sums.add(Counted(gauges=self._unsaved.counted().gauges))
        return sums


class _Kept(Collector):
    """What the retry job has added up, and how it last found things."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return kept_totals(self._store.totals())


def _label(metric: str, labels: Labels, part: str) -> str:
    return json.dumps([metric, labels, part], separators=(",", ":"))


def read_sums(kept: Mapping[str, float]) -> Counted:
    """Counters and histograms from the store's totals."""
    counted = Counted()
    for label, value in kept.items():
        metric, labels, part = json.loads(label)
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
