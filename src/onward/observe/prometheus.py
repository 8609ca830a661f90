"""The metrics of processes as Prometheus reads them. Needs prometheus-client."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby
from typing import TypeVar

from prometheus_client import CollectorRegistry
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.exposition import choose_encoder
from prometheus_client.registry import Collector

from onward.model.metric_catalogue import CATALOGUE, buckets_of
from onward.runtime.metrics import Counted, Distribution, Metrics, Series

Value = TypeVar("Value")


def render(registry: CollectorRegistry, accept: str) -> tuple[int, str, bytes]:
    """Return the page `/metrics` in the format that an `Accept` header wants."""
    encode, kind = choose_encoder(accept)
    return 200, kind, encode(registry)


class ProcessCollector(Collector):
    """Collects the metrics of this process, and of those that have sent it theirs."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics

    def describe(self) -> Iterable[Metric]:
        return []  # else `collect` would be called when it is registered

    def collect(self) -> Iterator[Metric]:
        return families(self._metrics.counted())


def families(counted: Counted) -> Iterator[Metric]:
    """Return metrics as families of Prometheus."""
    for name, label_names, series in _by_name(counted.counters):
        counter = CounterMetricFamily(name, _help(name), labels=label_names)
        for labels, value in series:
            counter.add_metric(labels, value)
        yield counter
    for name, label_names, series in _by_name(counted.gauges):
        gauge = GaugeMetricFamily(name, _help(name), labels=label_names)
        for labels, value in series:
            gauge.add_metric(labels, value)
        yield gauge
    for name, label_names, distributions in _by_name(counted.histograms):
        histogram = HistogramMetricFamily(name, _help(name), labels=label_names)
        for labels, distribution in distributions:
            histogram.add_metric(labels, _buckets(name, distribution), distribution.sum)
        yield histogram


def _by_name(series: Mapping[Series, Value]) -> Iterator[tuple[str, list[str], list[tuple[list[str], Value]]]]:
    """Group series by metric: its name, the names of its labels, and the label values with their value."""
    for name, group in groupby(sorted(series.items(), key=lambda item: item[0]), key=lambda item: item[0][0]):
        items = list(group)
        label_names = [label for label, _ in items[0][0][1]]
        yield name, label_names, [([text for _, text in labels], value) for (_, labels), value in items]


def _help(name: str) -> str:
    return CATALOGUE[name].help if name in CATALOGUE else "A metric of the app."


def _buckets(name: str, seen: Distribution) -> list[tuple[str, float]]:
    total, buckets = 0, list[tuple[str, float]]()
    for limit, count in zip((*(f"{limit:g}" for limit in buckets_of(name)), "+Inf"), seen.counts, strict=True):
        total += count
        buckets.append((limit, float(total)))
    return buckets
