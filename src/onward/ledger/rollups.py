"""Roll-ups in the store: processes append what they have counted, and one of them adds it up once a minute."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from onward.ledger.dialect import Database
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.clock import Clock
from onward.model.rollups import MINUTE, STEPS, ServiceCounts, bucket_of

Counts = Mapping[tuple[int, str], ServiceCounts]  # by the beginning of the bucket, and service
_LAST = 2**62  # a bucket after all others


class Rollups(TransactionalStore):
    """Stores and reads roll-ups. Each part is counted once: until it is added to the roll-ups, or in them."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db, clock)
        self._added_up_at = -math.inf

    def count_waiting(self, services: Sequence[str]) -> dict[str, int]:
        """Count the waiting events of those services that no process has counted in this minute."""
        done = set(self.db.read_unlocked("sampled_services", bucket_of(self.now(), MINUTE)))
        return self.waiting_counts([service for service in services if service not in done])

    def waiting_counts(self, services: Sequence[str]) -> dict[str, int]:
        """Count the waiting events of these services."""
        return dict(self.db.read_unlocked("waiting_counts", list(services))) if services else {}

    @transactional
    def add_counts(self, unit: UnitOfWork, counts: Counts) -> None:
        """Append what this process has counted, by minute; once a minute, add up all parts and prune."""
        unit.db.bulk("add_rollup_parts", [(*key, *_columns(one)) for key, one in counts.items()])
        if not 0 <= unit.now - self._added_up_at < MINUTE:
            self._added_up_at = unit.now
            _add_up(unit.db)
            for step, kept in STEPS.items():
                unit.db.send("prune_rollups", step, bucket_of(unit.now - kept, step))

    def service_counts(
        self, step: int, since: float, service: str | None = None, until: float | None = None
    ) -> dict[tuple[int, str], ServiceCounts]:
        """Return what services did in the buckets of this step, from the one of `since` to the one of `until`."""
        counts: dict[tuple[int, str], ServiceCounts] = {}
        last = _LAST if until is None else bucket_of(until, step)
        for row in self.db.read_unlocked("rollups", step, bucket_of(since, step), service, last):
            _add_row(counts, row, step)
        return counts


def _add_up(db: Database) -> None:
    """Add all parts to the roll-ups of each step."""
    db.lock("rollups")
    parts = db.fetch("take_rollup_parts")
    if not parts:
        return
    saved = []
    for step in STEPS:
        added: dict[tuple[int, str], ServiceCounts] = {}
        for row in parts:
            _add_row(added, row, step)
        first = min(bucket for bucket, _ in added)
        for row in db.read_unlocked("rollups", step, first, None, _LAST):
            if (row[0], row[1]) in added:
                _add_row(added, row, step)
        saved += [(step, *key, *_columns(one)) for key, one in added.items()]
    db.bulk("save_rollups", saved)


def _add_row(counts: dict[tuple[int, str], ServiceCounts], row: Sequence[Any], step: int) -> None:
    bucket, service, *values = row
    values[-2] = json.loads(values[-2])
    one = ServiceCounts.of_row(values)
    key = (bucket_of(bucket, step), service)
    if (known := counts.get(key)) is not None:
        known.add(one)
    else:
        counts[key] = one


def _columns(counts: ServiceCounts) -> tuple[Any, ...]:
    latencies = list(counts.latencies)
    while latencies and not latencies[-1]:
        latencies.pop()
    whole = (counts.events, counts.documents, counts.failures, counts.retries, counts.dead_letters)
    return (*whole, counts.seconds, json.dumps(latencies, separators=(",", ":")), counts.waiting)
