"""What has been counted, in the words of Prometheus; and the address where it can be had, with the health."""

from __future__ import annotations

import json
import logging
import socket
import threading
from collections.abc import Callable, Iterable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import groupby
from typing import Any

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from onward.model.buckets import buckets_of
from onward.model.catalogue import CATALOGUE
from onward.observe.health import Health
from onward.retry import OnwardError
from onward.runtime.metrics import Counted, Distribution, Metrics

log = logging.getLogger("onward")

PORTS = 20
"""How many ports from the one that is set are tried: several workers may run on a machine."""
SLOW_CLIENT = 10.0


class CannotExpose(OnwardError):
    """The address for metrics and health cannot be used."""


class CountedHere(Collector):
    """The metrics of this process, and of those that have told it theirs."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return []

    def collect(self) -> Iterator[Metric]:
        return families(self._metrics.counted())


def families(counted: Counted) -> Iterator[Metric]:
    """Metrics as Prometheus knows them."""
    for name, series in groupby(sorted(counted.counters.items()), key=lambda one: one[0][0]):
        many = list(series)
        counter = CounterMetricFamily(name, _help(name), labels=_labels(many))
        for (_, labels), value in many:
            counter.add_metric([text for _, text in labels], value)
        yield counter
    for name, series in groupby(sorted(counted.gauges.items()), key=lambda one: one[0][0]):
        gauges = list(series)
        gauge = GaugeMetricFamily(name, _help(name), labels=_labels(gauges))
        for (_, labels), value in gauges:
            gauge.add_metric([text for _, text in labels], value)
        yield gauge
    seen = sorted(counted.histograms.items(), key=lambda one: one[0])
    for name, distributions in groupby(seen, key=lambda one: one[0][0]):
        them = list(distributions)
        histogram = HistogramMetricFamily(name, _help(name), labels=_labels(them))
        for (_, labels), distribution in them:
            histogram.add_metric([text for _, text in labels], _buckets(name, distribution), distribution.sum)
        yield histogram


def _labels(series: list[tuple[tuple[str, tuple[tuple[str, str], ...]], Any]]) -> list[str]:
    return [label for label, _ in series[0][0][1]]


def _help(name: str) -> str:
    return CATALOGUE[name].help if name in CATALOGUE else "Of the app."


def _buckets(name: str, seen: Distribution) -> list[tuple[str, float]]:
    cumulated, buckets = 0, []
    for limit, count in zip((*(f"{one:g}" for one in buckets_of(name)), "+Inf"), seen.counts, strict=True):
        cumulated += count
        buckets.append((limit, float(cumulated)))
    return buckets


class Exposition:
    """An HTTP server for `/metrics`, `/healthz` and `/readyz`."""

    def __init__(self, address: str, registry: CollectorRegistry | None, health: Health) -> None:
        """`address`: a host and a port, or one of the next if that is taken. No registry: no metrics."""
        host, _, port = address.rpartition(":")
        self._server = _bound(host.strip("[]"), int(port), _handler(registry, health))
        self.moved = address if int(port) not in (0, self._server.server_address[1]) else ""
        """The address that was set, if another one was taken."""
        self._thread = threading.Thread(target=self._server.serve_forever, name="onward-metrics", daemon=True)

    @property
    def url(self) -> str:
        host, port = str(self._server.server_address[0]), self._server.server_address[1]
        return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that hangs up is nobody's trouble."""
        log.debug("a client of the metrics' address went away")


class _Server6(_Server):
    address_family = socket.AF_INET6


def _bound(host: str, port: int, handler: type[BaseHTTPRequestHandler]) -> _Server:
    kind = _Server6 if ":" in host else _Server
    problem: OSError | None = None
    for number in range(port, min(port + PORTS, 65536)) if port else (0,):
        try:
            # Without this, two could listen on one port, and each would be asked now and then.
            kind.allow_reuse_port = False
            return kind((host, number), handler)
        except OSError as error:
            problem = error
            if error.errno not in (98, 48):  # in use, on Linux and on a Mac
                break
    raise CannotExpose(
        f"metrics and health cannot be had at {host}:{port}: {problem}. Set ONWARD_METRICS_ADDRESS to an address "
        "of this machine, or to off"
    )


def _handler(registry: CollectorRegistry | None, health: Health) -> type[BaseHTTPRequestHandler]:
    def metrics(accepts: str) -> tuple[int, str, bytes]:
        if registry is None:
            return 404, "text/plain; charset=utf-8", b"metrics are switched off (METRICS_BACKEND)\n"
        encode, kind = choose_encoder(accepts)
        return 200, kind, encode(registry)

    def told(ask: Callable[[], tuple[bool, dict[str, str]]]) -> Callable[[str], tuple[int, str, bytes]]:
        def tell(_: str) -> tuple[int, str, bytes]:
            well, checks = ask()
            body = json.dumps({"status": "ok" if well else "not ok", "checks": checks}, indent=1)
            return 200 if well else 503, "application/json", f"{body}\n".encode()

        return tell

    pages = {"/metrics": metrics, "/healthz": told(health.alive), "/readyz": told(health.ready)}

    class Handler(BaseHTTPRequestHandler):
        """Answers who monitors."""

        server_version = "onward"
        sys_version = ""
        timeout = SLOW_CLIENT

        def do_GET(self) -> None:  # the server's own name
            page = pages.get(self.path.partition("?")[0])
            if page is None:
                where = " ".join(pages)
                self._answer(404, "text/plain; charset=utf-8", f"there is {where}\n".encode())
                return
            try:
                self._answer(*page(self.headers.get("Accept", "")))
            except OSError:
                raise
            except Exception:
                log.exception("%s could not be answered", self.path[:100])
                self._answer(500, "text/plain; charset=utf-8", b"it could not be answered; see the log\n")

        do_HEAD = do_GET  # noqa: N815

        def _answer(self, status: int, kind: str, body: bytes) -> None:
            self.send_response(status)
            self.send_header("Content-Type", kind)
            self.send_header("Content-Length", str(len(body)))
            self.send_header("Cache-Control", "no-store")
            self.end_headers()
            if self.command != "HEAD":
                self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            log.debug("metrics' address: " + format, *args)

    return Handler
