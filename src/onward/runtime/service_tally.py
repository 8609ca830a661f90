"""What a worker process counts of its services for the roll-ups, until it is written to the store."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TYPE_CHECKING

from onward.ledger.store_errors import StoreError
from onward.model.ledger import (
    CommitResult,
    CommitStatus,
    DeadLettered,
    Expired,
    Processed,
    RetryLater,
    SettlementPart,
)
from onward.model.rollups import MINUTE, ServiceCounts, bucket_of

if TYPE_CHECKING:
    from onward.ledger.store import Store
    from onward.runtime.handler_call import FinishedCall

WRITE_SECONDS = 10.0  # a crash loses what was counted since the last write


class ServiceTally:
    """Counts what became of calls. `count` and `roll` are called by one thread; another one may `write`."""

    def __init__(self, services: Sequence[str]) -> None:
        """`services` are those whose presence is recorded each minute, even if they have nothing to do."""
        self._services = services
        self._lock = threading.Lock()
        self._now: dict[str, ServiceCounts] = {}
        self._rolled: dict[tuple[int, str], ServiceCounts] = {}  # by the minute in which it was counted
        self._minute = self._sampled = 0
        self._written_at = 0.0

    def count(self, done: Sequence[tuple[FinishedCall, CommitResult]]) -> None:
        """Count what became of calls, and of deliveries that were settled without one.

        Plain successes come by the thousand: they are added up in local variables, a service at a time.
        """
        name, events, documents = "", 0, 0
        took: list[float] = []
        for item, result in done:
            if item.reply is not None or result.status is not CommitStatus.COMMITTED:
                continue  # a checkpoint is no outcome, and what was dropped has none
            of = item.of
            if of.service.name != name:
                self._add(name, events, documents, took)
                name, events, documents, took = of.service.name, 0, 0, []
            parts = item.settlement.parts if result.parts is None else result.parts
            if len(parts) == 1 and type(parts[0]) is Processed:
                documents += len(parts[0].ids)
                events += item.settlement.closes
            else:
                documents += sum(len(part.ids) for part in parts if isinstance(part, Processed))
                self._add_failures(name, [part for part in parts if not isinstance(part, Processed)])
            if of.opened is not of:  # a handler was called
                took.append(of.seconds)
        self._add(name, events, documents, took)

    def _of(self, service: str) -> ServiceCounts:
        counts = self._now.get(service)
        if counts is None:
            counts = self._now[service] = ServiceCounts()
        return counts

    def _add(self, service: str, events: int, documents: int, took: list[float]) -> None:
        if not (events or documents or took):
            return
        counts = self._of(service)
        counts.events += events
        counts.documents += documents
        counts.add_tries(took)

    def _add_failures(self, service: str, parts: Sequence[SettlementPart]) -> None:
        counts = self._of(service)
        for part in parts:
            if not isinstance(part, Processed | Expired) and part.failure is not None:
                counts.failures += 1
                counts.retries += isinstance(part, RetryLater)
                counts.dead_letters += isinstance(part, DeadLettered)

    def roll(self, now: float) -> None:
        """Assign what was counted since the last time to this minute."""
        minute, counted = bucket_of(now, MINUTE), self._now
        if minute != self._minute:
            self._minute = minute
            counted = {service: ServiceCounts() for service in self._services} | counted
        if counted:
            self._now = {}
            self._put({(minute, service): counts for service, counts in counted.items()})

    def _put(self, counts: dict[tuple[int, str], ServiceCounts]) -> None:
        with self._lock:
            for key, one in counts.items():
                if (known := self._rolled.setdefault(key, one)) is not one:
                    known.add(one)

    def is_due(self, now: float) -> bool:
        """Return whether it is time to write what was counted."""
        return bool(self._rolled) and not 0 <= now - self._written_at < WRITE_SECONDS

    def write(self, store: Store) -> None:
        """Write what was counted, and how many events wait; one process counts those in each minute."""
        self._written_at = now = store.now()
        with self._lock:
            counts, self._rolled = self._rolled, {}
        try:
            if self._services and (minute := bucket_of(now, MINUTE)) != self._sampled:
                for service, waiting in store.count_waiting(self._services).items():
                    counts.setdefault((minute, service), ServiceCounts()).waiting = waiting
                self._sampled = minute
            if counts:
                store.add_counts(counts)
        except StoreError:
            self._put(counts)
            raise
