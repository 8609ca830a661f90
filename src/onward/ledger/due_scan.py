"""Where the due rows of each service begin, so that a claim does not walk rows that were claimed long ago.

PostgreSQL keeps the old versions of changed and deleted rows, with their index entries, until no open transaction
can see them. While a transaction stays open, a scan from the oldest row on walks everything that was claimed since
it began. So a process remembers a floor for each service and priority: no row was due before it. It scans without
floors ten times a second, and less often if that takes long. Until then a row below its floor waits. Such rows are
rare: a row is committed soon after it is due, and a process that returns older ones to the queue notifies others.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from onward.ledger.dialect import Database
from onward.ledger.transactions import TransactionalStore
from onward.model.breaker import Breaker, current
from onward.model.clock import Clock

USUAL_PRIORITY = 0  # It is always looked for
SLACK_SECONDS = 1.0  # A row may be committed this long after it was due, and is found all the same
FULL_SCAN_SECONDS = 0.1  # The least time between two scans without floors
FULL_SCAN_SHARE = 0.05  # The largest share of the time that scans without floors take
SLOW_SECONDS = 0.05  # A pulse that takes longer than this uses floors from then on


@dataclass(slots=True)
class DueScan:
    """What is known about the waiting rows of one service."""

    floors: dict[int, float] = field(default_factory=dict)  # By priority, the highest first
    full_from: float = -math.inf  # When the next scan without floors is made, by the monotonic clock
    cost: float = 0.0  # How long the last scan without floors has taken

    def found(self, priority: int, due: float) -> None:
        """Record that no row of a priority is due before this time."""
        self.floors[priority] = due - SLACK_SECONDS

    @property
    def is_full(self) -> bool:
        """Whether nothing was read by these floors yet."""
        return -math.inf in self.floors.values()

    def took(self, seconds: float) -> None:
        """Record how long a part of a scan without floors has taken."""
        self.cost += seconds
        self.full_from = time.monotonic() + max(FULL_SCAN_SECONDS, self.cost / FULL_SCAN_SHARE)


@dataclass(slots=True)
class Pulse:
    """What a worker without work asks for once a second."""

    at: float
    due: dict[str, float] = field(default_factory=dict)  # When the next row of a service falls due
    lapsed: bool = False  # A worker whose lease has ended has claimed rows
    breakers: list[Breaker] = field(default_factory=list)
    incoming: bool = False  # Something waits in `incoming`


class DueScans(TransactionalStore):
    """Knows where the due rows of each service begin."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db, clock)
        # Floors rely on time that passes evenly, which that of a simulation does not.
        self._has_floors = db.keeps_old_rows and clock is None
        self._scans: dict[str, DueScan] = {}
        self._returned = 0  # The value of `db.returned` when the scans began

    def scan(self, service: str) -> DueScan:
        """Return the floors of a service; all are minus infinity if a scan without floors is due."""
        scan = self._known_scan(service)
        if scan is None:
            scan = self._scans[service] = self.full_scan(service)
        return scan

    def full_scan(self, service: str) -> DueScan:
        """Return a scan of all waiting rows of a service, without floors."""
        began = time.monotonic()
        found = {USUAL_PRIORITY, *self.db.read_unlocked("priorities", service)}
        scan = DueScan(dict.fromkeys(sorted(found, reverse=True), -math.inf))
        scan.took(time.monotonic() - began)
        return scan

    def due_priority(self, service: str) -> int | None:
        """Return the highest priority of the due rows of a service; None if no row is due."""
        for priority, floor in self.scan(service).floors.items():
            if self.db.read_unlocked("due_rows", service, priority, floor, self.now(), 1):
                return priority
        return None

    def pulse(self, services: Sequence[str]) -> Pulse:
        """Return, by one query, all that a worker without work has to know."""
        unknown: list[str] = []
        names: list[str] = []
        priorities: list[int] = []
        floors: list[float] = []
        for service in services:
            if (scan := self._known_scan(service)) is None:
                unknown.append(service)
                continue
            for priority, floor in scan.floors.items():
                names.append(service)
                priorities.append(priority)
                floors.append(floor)
        now, began = self.now(), time.monotonic()
        rows = self.db.fetch("pulse", unknown, names, priorities, floors, now)
        took = time.monotonic() - began
        pulse = Pulse(now)
        for kind, name, value in rows:
            if kind == "due":
                pulse.due[name] = min(value, pulse.due.get(name, math.inf))
            elif kind == "lapsed":
                pulse.lapsed = True
            elif kind == "incoming":
                pulse.incoming = True
            else:
                pulse.breakers.append(current(Breaker.from_dict(json.loads(name)), now))
        if self._has_floors and took > SLOW_SECONDS:
            for service in unknown:  # the next pulse is to take less
                scan = self.scan(service)
                scan.took(took)
                for priority in scan.floors:
                    scan.found(priority, min(now, pulse.due.get(service, now)))
        return pulse

    def _known_scan(self, service: str) -> DueScan | None:
        if not self._has_floors:
            return None
        if self._returned != self.db.returned:
            self._returned = self.db.returned
            self._scans.clear()
        scan = self._scans.get(service)
        return None if scan is None or time.monotonic() >= scan.full_from else scan
