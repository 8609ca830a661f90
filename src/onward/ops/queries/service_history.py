"""What services did over time: rate, latency, failures and waiting events, with outages and deploys."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from onward.ledger.store import Store
from onward.model.rollups import HOUR, MINUTE, TEN_MINUTES, ServiceCounts, bucket_of
from onward.ops.bad_input import NotFound
from onward.ops.queries.services import opening_facts
from onward.ops.text.format import iso, one_line
from onward.retry.redact import redact

P95 = 0.95
MIN_RATE_SECONDS = 10  # the rate of a bucket that has just begun is taken over this time at least


class TimeRange(NamedTuple):
    name: str
    seconds: int
    step: int
    title: str


RANGES = MappingProxyType(
    {
        "1h": TimeRange("1h", HOUR, MINUTE, "last hour"),
        "24h": TimeRange("24h", 24 * HOUR, TEN_MINUTES, "last 24 hours"),
        "7d": TimeRange("7d", 7 * 24 * HOUR, HOUR, "last 7 days"),
    }
)


@dataclass(frozen=True, slots=True)
class HistoryPoint:
    """A bucket of time; without counts, no worker ran in it."""

    start: int
    seconds: float  # How much of the bucket has passed
    counts: ServiceCounts | None

    def rate(self, unit: str) -> float | None:
        """Return the documents or events that were finished a second."""
        if self.counts is None:
            return None
        finished: int = getattr(self.counts, unit)
        return finished / max(self.seconds, MIN_RATE_SECONDS)


class OutageMark(NamedTuple):
    dependency: str
    opened_at: float
    closed_at: float | None
    reason: str


class DeployMark(NamedTuple):
    version: str
    first_seen: float


@dataclass(frozen=True, slots=True)
class ServiceHistory:
    """The buckets of a time range, the oldest first, of a service or of all (`service` is None)."""

    service: str | None
    over: TimeRange
    unit: str  # What the rate counts: `documents`, or `events` where no documents are finished
    start: float
    end: float
    points: tuple[HistoryPoint, ...]
    outages: tuple[OutageMark, ...]
    deploys: tuple[DeployMark, ...]

    def total(self) -> ServiceCounts:
        """Return all counts of the range together; `waiting` is the most at one time."""
        whole = ServiceCounts()
        for point in self.points:
            if point.counts is not None:
                whole.add(point.counts)
        return whole

    def as_dict(self) -> dict[str, Any]:
        return {
            "service": self.service,
            "range": self.over.name,
            "step_seconds": self.over.step,
            "unit": self.unit,
            "start": iso(self.start),
            "end": iso(self.end),
            "points": [self._point(point) for point in self.points],
            "outages": [opening_facts(one._asdict() | {"remedy": ""}) for one in self.outages],
            "deploys": [{"version": one.version, "first_seen": iso(one.first_seen)} for one in self.deploys],
        }

    def _point(self, point: HistoryPoint) -> dict[str, Any]:
        counts = point.counts
        whole = ("events", "documents", "failures", "retries", "dead_letters", "tries", "waiting")
        rate = point.rate(self.unit)
        return {
            "start": iso(point.start),
            "rate": None if rate is None else round(rate, 4),
            "mean_seconds": _rounded(counts.mean_seconds) if counts else None,
            "p95_seconds": _rounded(counts.quantile_seconds(P95)) if counts else None,
            **{name: getattr(counts, name) if counts else None for name in whole},
        }


def _rounded(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 4)


def read_history(store: Store, over: TimeRange, service: str | None = None) -> ServiceHistory:
    """Read what a service, or all of them, did in a time range that ends now; refuse an unknown service."""
    subscriptions = {one.service: one for one in store.subscriptions()}
    if service is not None and service not in subscriptions:
        known = ", ".join(one_line(name, 60) for name in sorted(subscriptions)) or "none"
        raise NotFound(f"there is no service {one_line(service, 60)!r}; there are: {known}")
    chosen = list(subscriptions.values()) if service is None else [subscriptions[service]]
    now, step = store.now(), over.step
    start = bucket_of(now, step) + step - over.seconds
    by_bucket = _sum_services(store.service_counts(step, start, service))
    needs = {name for one in chosen for name in one.needs}
    return ServiceHistory(
        service,
        over,
        "documents" if any(one.finishes for one in chosen) else "events",
        start,
        now,
        tuple(
            HistoryPoint(at, min(step, now - at), by_bucket.get(at))
            for at in range(start, start + over.seconds, step)
        ),
        tuple(
            OutageMark(one["dependency"], one["opened_at"], one["closed_at"], redact(one["reason"]))
            for one in store.openings()
            if one["dependency"] in needs and (one["closed_at"] is None or one["closed_at"] > start)
        ),
        tuple(DeployMark(name, first) for name, first, _ in store.versions() if first >= start),
    )


def _sum_services(counts: Mapping[tuple[int, str], ServiceCounts]) -> dict[int, ServiceCounts]:
    """Return the counts of all services together, by bucket; events that wait for different services add up."""
    summed: dict[int, ServiceCounts] = {}
    for (bucket, _), one in counts.items():
        if (known := summed.get(bucket)) is None:
            summed[bucket] = one
            continue
        waiting = [each.waiting for each in (known, one) if each.waiting is not None]
        known.add(one)
        known.waiting = sum(waiting) if waiting else None
    return summed
