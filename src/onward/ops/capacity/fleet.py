"""A fleet of workers on one PostgreSQL, simulated batch by batch with the measured costs of the ledger.

A worker settles a batch and claims the next in one transaction, then handles it. Three things are shared by all
workers: the processors of the server, the stream of its write-ahead log, and the flush of that log, which takes
all commits along that wait for it.
"""

from __future__ import annotations

import heapq
import math
from bisect import bisect_left
from dataclasses import asdict, dataclass, field, replace
from enum import StrEnum
from typing import Any

from onward.ops.capacity.figures import LedgerCosts
from onward.runtime.slots import AHEAD_SECONDS, MAX_AHEAD
from onward.runtime.work_loop import MAX_GROUP

STEPS = (1, 2, 5, 10, 20, 50, 100, 200, 500)
SAMPLED_BATCHES = 20  # of each worker, where not all events are simulated
STILL_LINEAR = 0.8  # of what as many workers would do that do not share anything
NEARLY_FULL = 0.9


class Limit(StrEnum):
    """What keeps a fleet from doing more."""

    WORKERS = "workers"
    SERVER = "processors of the server"
    LOG = "write-ahead log of the server"
    FLUSH = "flushes of the log to disk"


@dataclass(frozen=True, slots=True)
class Fleet:
    """Workers, what they do, and the server they share."""

    workers: int
    handler_seconds: float  # that a call takes
    slots: int = 3  # calls at once in a worker
    server_cores: int = 8
    log_bytes_per_second: float = 250e6
    shared_cores: int | None = None  # workers and server share the processors of one machine

    @property
    def batch(self) -> int:
        """How many events a worker settles at once: it claims when a quarter of what it holds is done."""
        pace = max(self.handler_seconds, 1e-6)
        held = self.slots + min(MAX_AHEAD, int(AHEAD_SECONDS / pace) * self.slots)
        return min(MAX_GROUP, math.ceil(held / 4))


@dataclass(frozen=True, slots=True)
class FleetRun:
    """What a fleet did with its events."""

    workers: int
    events: int
    seconds: float
    batch: int
    commit_seconds: float  # that a transaction took on average, with its waits
    server_use: float  # shares of the time
    log_use: float
    worker_use: float

    @property
    def per_second(self) -> float:
        return self.events / self.seconds

    @property
    def limit(self) -> Limit:
        """What is used most, if it is nearly full; else its workers, or the wait for the disk."""
        shares = {Limit.WORKERS: self.worker_use, Limit.SERVER: self.server_use, Limit.LOG: self.log_use}
        name = max(shares, key=lambda one: shares[one])
        return name if shares[name] >= NEARLY_FULL else Limit.FLUSH


@dataclass(frozen=True, slots=True)
class FleetForecast:
    """Fleets of growing size, and where more workers stop to help."""

    fleet: Fleet
    runs: tuple[FleetRun, ...]
    knee: FleetRun | None  # None: all sizes do what their workers can
    limit: Limit | None  # beyond the knee

    def as_dict(self) -> dict[str, Any]:
        def shown(run: FleetRun) -> dict[str, Any]:
            return asdict(run) | {"per_second": run.per_second, "limit": run.limit}

        found = {"knee": shown(self.knee) if self.knee else None, "limit": self.limit}
        return {"fleet": asdict(self.fleet), "runs": [shown(run) for run in self.runs]} | found


def forecast(fleet: Fleet, events: int, costs: LedgerCosts) -> FleetForecast:
    """Simulate fleets up to this one; this one with all events."""
    sizes = [size for size in STEPS if size < fleet.workers] + [fleet.workers]
    found: dict[int, FleetRun] = {}

    def run(size: int) -> FleetRun:
        if size not in found:
            some = replace(fleet, workers=size)
            whole = events if size == fleet.workers else min(events, size * some.batch * SAMPLED_BATCHES)
            found[size] = simulate(some, whole, costs)
        return found[size]

    alone = run(1).per_second

    def bent(size: int) -> bool:
        return run(size).per_second < STILL_LINEAR * alone * size

    runs = tuple(run(size) for size in sizes)
    first = next((place for place, size in enumerate(sizes) if bent(size)), None)
    if first is None:
        return FleetForecast(fleet, runs, None, None)
    fewer, more = sizes[first - 1], sizes[first]
    between = range(fewer, more + 1, max(1, fewer // 20))  # as exact as the model is
    knee = between[max(0, bisect_left(between, True, key=bent) - 1)]
    return FleetForecast(fleet, runs, run(knee), runs[first].limit)


def simulate(fleet: Fleet, events: int, costs: LedgerCosts) -> FleetRun:
    """Let a fleet work off a backlog."""
    return _Run(fleet, costs).work_off(events)


@dataclass(slots=True)
class _Run:
    fleet: Fleet
    costs: LedgerCosts
    log_free: float = 0.0
    flush_begins: float = 0.0  # of the flush that commits can still join
    server_busy: float = 0.0
    log_busy: float = 0.0
    worker_busy: float = 0.0
    commit_seconds: float = 0.0
    commits: int = 0
    cores: list[float] = field(default_factory=list)  # when each is free
    _slowed: float = 1.0  # the server answers idle questions, too

    def work_off(self, events: int) -> FleetRun:
        fleet, costs = self.fleet, self.costs
        cores = fleet.shared_cores or fleet.server_cores
        self.cores = [0.0] * cores
        self._slowed = 1 / max(0.01, 1 - min(0.99, costs.server_idle * fleet.workers / cores))
        # They do not start at the same moment: else all would ask at once again and again.
        apart = self._busy_seconds(fleet.batch) / fleet.workers
        asking = [(number * apart, number) for number in range(fleet.workers)]
        heapq.heapify(asking)
        served: list[tuple[float, float, int, int]] = []  # by the server: when, asked at, worker, events
        left, ended = events, 0.0
        while asking or served:
            if served and (not asking or served[0][0] <= asking[0][0]):
                at, asked_at, worker, count = heapq.heappop(served)
                done = self._write_log(at, count)
                ended = max(ended, done)
                self.commits += 1
                self.commit_seconds += done - asked_at
                handled = self._handle(asked_at, done, count)
                ended = max(ended, handled)
                if left > 0:
                    heapq.heappush(asking, (handled, worker))
            else:
                at, worker = heapq.heappop(asking)
                count = min(fleet.batch, left)
                if count <= 0:
                    continue
                left -= count
                took = (costs.server_batch + costs.server_event * count) * self._slowed
                self.server_busy += took
                heapq.heappush(served, (self._compute(at, took), at, worker, count))
        time = max(ended, 1e-9)
        return FleetRun(
            workers=fleet.workers,
            events=events,
            seconds=time,
            batch=fleet.batch,
            commit_seconds=self.commit_seconds / max(1, self.commits),
            server_use=min(1.0, self.server_busy / time / cores),
            log_use=min(1.0, self.log_busy / time),
            worker_use=min(1.0, self.worker_busy / time / fleet.workers),
        )

    def _compute(self, at: float, seconds: float) -> float:
        """Take the processor that is free first; return when it is done."""
        done = max(at, self.cores[0]) + seconds
        heapq.heapreplace(self.cores, done)
        return done

    def _write_log(self, at: float, count: int) -> float:
        """Append to the log, and wait for the next flush; return when the commit is confirmed."""
        took = count * self.costs.log_bytes / self.fleet.log_bytes_per_second
        self.log_busy += took
        self.log_free = max(at, self.log_free) + took
        if self.log_free > self.flush_begins:  # the last flush has begun without it
            self.flush_begins = max(self.log_free, self.flush_begins + self.costs.flush_seconds)
        return self.flush_begins + self.costs.flush_seconds

    def _busy_seconds(self, count: int) -> float:
        each = max(self.costs.worker_event, self.fleet.handler_seconds / self.fleet.slots)
        return self.costs.worker_batch + count * each

    def _handle(self, asked_at: float, claimed_at: float, count: int) -> float:
        """Handle a batch: that begins before it is committed, as a worker holds more than it settles at once."""
        busy = self._busy_seconds(count)
        self.worker_busy += busy
        if self.fleet.shared_cores:
            return max(claimed_at, self._compute(asked_at, busy))
        return max(claimed_at, asked_at + busy)
