"""Roll-ups: what a service did in a bucket of time, and in which steps that is kept."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from onward.model.metric_catalogue import SECONDS

LATENCY_LIMITS = SECONDS
MINUTE, TEN_MINUTES, HOUR = 60, 600, 3600
# The length of a bucket, and for how long such buckets are kept, in seconds.
STEPS: Mapping[int, int] = MappingProxyType({MINUTE: 26 * HOUR, TEN_MINUTES: 3 * 24 * HOUR, HOUR: 9 * 24 * HOUR})


@dataclass(slots=True)
class ServiceCounts:
    """What a service did in some time. A time without any counts is one in which no worker ran it."""

    events: int = 0  # Calls of its handler whose work was committed
    documents: int = 0  # That these calls were about
    failures: int = 0  # Failed tries
    retries: int = 0  # Failed tries that are repeated
    dead_letters: int = 0
    seconds: float = 0.0  # That all tries took together
    latencies: list[int] = field(default_factory=lambda: [0] * (len(LATENCY_LIMITS) + 1))
    """Tries by how long they took: up to each of `LATENCY_LIMITS`, and longer."""
    waiting: int | None = None  # The most events that were seen waiting; None: nobody looked

    @classmethod
    def of_row(cls, row: Sequence[Any]) -> ServiceCounts:
        """Return counts from the columns of a row, in the order of the fields, `latencies` as decoded JSON."""
        counts = cls(*row)
        counts.latencies = [*counts.latencies, *[0] * (len(LATENCY_LIMITS) + 1 - len(counts.latencies))]
        return counts

    def add_tries(self, took: Sequence[float]) -> None:
        """Add tries by the seconds that each took."""
        ordered, below = sorted(took), 0
        for place, limit in enumerate(LATENCY_LIMITS):
            if below == len(ordered):
                break
            up_to = bisect_right(ordered, limit, lo=below)
            self.latencies[place] += up_to - below
            below = up_to
        self.latencies[-1] += len(ordered) - below
        self.seconds += sum(ordered)

    def add(self, other: ServiceCounts) -> None:
        """Add what the same service did in another process, or in another time."""
        self.events += other.events
        self.documents += other.documents
        self.failures += other.failures
        self.retries += other.retries
        self.dead_letters += other.dead_letters
        self.seconds += other.seconds
        self.latencies = [mine + more for mine, more in zip(self.latencies, other.latencies, strict=True)]
        seen = [waiting for waiting in (self.waiting, other.waiting) if waiting is not None]
        self.waiting = max(seen, default=None)

    @property
    def tries(self) -> int:
        return sum(self.latencies)

    @property
    def mean_seconds(self) -> float | None:
        """How long a try took on average; None: there was none."""
        return self.seconds / self.tries if self.tries else None

    def quantile_seconds(self, share: float) -> float | None:
        """Return the time within which this share of the tries ended, interpolated; None: there was none."""
        if not (tries := self.tries):
            return None
        wanted, below, lower = share * tries, 0, 0.0
        for count, limit in zip(self.latencies, LATENCY_LIMITS, strict=False):
            if below + count >= wanted:
                return lower + (limit - lower) * (wanted - below) / count
            below, lower = below + count, limit
        return lower  # longer than the last limit; by how much is not known


def bucket_of(at: float, step: int) -> int:
    """Return when the bucket of a point in time begins."""
    return int(at // step) * step
