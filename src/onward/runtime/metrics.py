"""Counting what happens: cheap enough for every event, and handed on now and then."""

from __future__ import annotations

import bisect
import logging
import math
import re
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from onward.model.metric_catalogue import CATALOGUE, COUNTED, buckets_of
from onward.retry import redact

log = logging.getLogger("onward")

Labels = tuple[tuple[str, str], ...]
Series = tuple[str, Labels]  # the name of a metric, and its labels in the order of their names

MOST_SERIES = 500  # label values of one name that are counted separately; further ones are counted as `other`
LONGEST_VALUE = 120
OTHER = "other"
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_LABEL = re.compile(r"(?!__)(?!(?:le|quantile)$)[a-zA-Z_][a-zA-Z0-9_]*")


@dataclass(slots=True)
class Distribution:
    """The values of a histogram: the count of each bucket, the last one without a limit, and the sum."""

    counts: list[int]
    sum: float = 0.0

    @classmethod
    def of(cls, name: str) -> Distribution:
        """Return an empty distribution with the buckets of a histogram."""
        return cls([0] * (len(buckets_of(name)) + 1))

    def __add__(self, other: Distribution) -> Distribution:
        counts = [mine + more for mine, more in zip(self.counts, other.counts, strict=True)]
        return Distribution(counts, self.sum + other.sum)


@dataclass(slots=True)
class Counted:
    """Counted values, in a form that can be sent to another process."""

    counters: dict[Series, float] = field(default_factory=dict)
    histograms: dict[Series, Distribution] = field(default_factory=dict)
    gauges: dict[Series, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.counters or self.histograms or self.gauges)


class Metrics:
    """Counters, histograms and gauges of this process; for your own services, too.

    It never raises and never waits: a name or a value that makes no sense is said once in the log, and left out.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._now = Counted()
        self._known: dict[str, set[Labels]] = {}
        self._given: dict[tuple[str, str, Labels], Series] = {}
        """The series of a kind, a name and labels as they were given."""
        self._kinds: dict[str, tuple[str, tuple[str, ...]]] = {}  # the kind and the label names of each metric
        self._said: set[str] = set()
        self.also: list[Callable[[], Counted]] = []  # return their own new counts each time metrics are collected

    def increment(self, name: str, by: float = 1.0, /, **labels: str) -> None:
        """Count something that happened."""
        if (series := self._series("counter", name, by, labels)) is not None:
            if by < 0:
                self._say(f"the counter {name} cannot go down, by {by!r}")
                return
            with self._lock:
                self._now.counters[series] = self._now.counters.get(series, 0.0) + by

    def observe(self, name: str, value: float, /, **labels: str) -> None:
        """Add a value to a distribution: how long something took, how large it was."""
        if (series := self._series("histogram", name, value, labels)) is not None:
            with self._lock:
                seen = self._now.histograms.get(series)
                if seen is None:
                    seen = self._now.histograms[series] = Distribution.of(name)
                seen.counts[bisect.bisect_left(buckets_of(name), value)] += 1
                seen.sum += value

    def gauge(self, name: str, value: float, /, **labels: str) -> None:
        """Say how much there is of something now."""
        if (series := self._series("gauge", name, value, labels)) is not None:
            with self._lock:
                self._now.gauges[series] = value

    # -- handing on

    def take(self) -> Counted:
        """Return the counts since the last call, and the last value of each gauge."""
        self._gather()
        with self._lock:
            counted, self._now = self._now, Counted(gauges=dict(self._now.gauges))
        return counted

    def add(self, counted: Counted) -> None:
        """Add what another process has counted."""
        with self._lock:
            for series, by in counted.counters.items():
                if self._admits("counter", series):
                    self._now.counters[series] = self._now.counters.get(series, 0.0) + by
            for series, seen in counted.histograms.items():
                if self._admits("histogram", series):
                    before = self._now.histograms.get(series) or Distribution.of(series[0])
                    self._now.histograms[series] = before + seen
            self._now.gauges |= {one: value for one, value in counted.gauges.items() if self._admits("gauge", one)}

    def _gather(self) -> None:
        for counted in self.also:
            self.add(counted())

    def counted(self) -> Counted:
        self._gather()
        with self._lock:
            now = self._now
            histograms = {one: Distribution(list(seen.counts), seen.sum) for one, seen in now.histograms.items()}
            return Counted(dict(now.counters), histograms, dict(now.gauges))

    # -- what makes sense

    def _series(self, kind: str, name: str, value: float, labels: Mapping[str, str]) -> Series | None:
        try:
            if not math.isfinite(value):
                self._say(f"the metric {name} was given {value!r}, which is no number to count with")
                return None
            given = (kind, name, tuple(sorted(labels.items())))
            if (known := self._given.get(given)) is not None:
                return known
            named = tuple((label, redact(str(text)[:LONGEST_VALUE])) for label, text in given[2])
        except Exception as error:  # a bad value must not fail the work
            self._say(f"the metric {name!r:.100} was given what cannot be counted: {type(error).__name__}")
            return None
        with self._lock:
            if not self._admits(kind, (name, named)):
                return None
            if len(self._known[name]) >= MOST_SERIES and named not in self._known[name]:
                self._say(f"the metric {name} has more than {MOST_SERIES} label values; the rest is {OTHER!r}")
                return name, tuple((label, OTHER) for label, _ in named)
            self._known[name].add(named)
            if named == given[2]:  # else many that are given may be counted as one
                self._given[given] = (name, named)
        return name, named

    def _admits(self, kind: str, series: Series) -> bool:
        name, labels = series
        called = tuple(label for label, _ in labels)
        if name not in self._kinds:
            about = CATALOGUE.get(name)
            if about is not None and name not in COUNTED:
                self._say(f"the metric {name} is Onward's own, and read from the store")
                return False
            if about is None and not (_NAME.fullmatch(str(name)) and all(map(_LABEL.fullmatch, called))):
                self._say(f"the metric {name!r:.100} or one of its labels has a name that Prometheus refuses")
                return False
            self._kinds[name] = (kind, called) if about is None else (about.kind, tuple(sorted(about.labels)))
            self._known.setdefault(name, set())
        known_as, known_labels = self._kinds[name]
        if (known_as, known_labels) != (kind, called):
            first = f"{known_as} with the labels {', '.join(known_labels) or 'none'}"
            self._say(f"the metric {name} is a {first}, and no {kind} with {', '.join(called) or 'none'}")
            return False
        return True

    def _say(self, problem: str) -> None:
        if problem not in self._said and len(self._said) < 100:
            self._said.add(problem)
            log.error("%s; it is left out", problem)


class NoMetrics(Metrics):
    """Metrics that are switched off."""

    def _series(self, kind: str, name: str, value: float, labels: Mapping[str, str]) -> None: ...
