"""Queries about the rows of the ledger, queues, claims and failure groups."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from onward.ledger.failure_groups import CountedFailure, made_by, read_group
from onward.ledger.reader import nested
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.failures import Failure
from onward.model.ledger import PARKED_DUE, RowState
from onward.model.ledger_views import FailureGroup, LedgerRow, QueueStatus, Successes, WorkerClaims

_LIVE = (RowState.WAITING, RowState.CLAIMED)


class LedgerQueries(TransactionalStore):
    """Reads rows, queues, claims and failure groups."""

    def ledger_row(self, id: int) -> LedgerRow | None:
        """Return a ledger row, while it is kept."""
        row = self.db.read("ledger_row", id)
        return LedgerRow(*row) if row else None

    def settled_rows_naming(self, collection: str, id: str, *, limit: int = 20) -> list[LedgerRow]:
        """Return settled events that named a document and are still kept, oldest first."""
        rows = self.db.read("settled_rows_naming", collection, id, limit)
        return [LedgerRow(*row) for row in reversed(rows)]

    def row_states(self, rows: Sequence[int]) -> dict[int, str]:
        """Return the state of these ledger rows; a row that does not exist any more was done."""
        states = dict(self.db.read("row_states", list(rows)))
        return {row: states.get(row, str(RowState.DONE)) for row in rows}

    def counts(self) -> dict[str, dict[str, int]]:
        return nested(self.db.read("row_counts"))

    def cursors(self, service: str) -> dict[str, Any]:
        """Return the last checkpoints of a service's claimed deliveries, by the ids that the call was about."""
        return {ids: cursor for cursors in self.db.read("cursors", service) for ids, cursor in cursors.items()}

    def queues(self, services: Sequence[str]) -> list[QueueStatus]:
        now, queues, dues = self.now(), [], self._next_dues(services, suspects=True)
        for service, waiting, claimed, dead in self.db.read_unlocked("queue_counts", list(services)):
            due = dues.get(service, math.inf)
            queues.append(QueueStatus(service, waiting, claimed, dead, due if due <= now else None))
        return queues

    def claims_by_worker(self, *, examples: int = 3) -> list[WorkerClaims]:
        """Return what every worker has claimed, by worker, then service, with some documents as examples."""
        found = self.db.read_unlocked("claims_by_worker", examples)
        return [
            WorkerClaims(worker, service, events, documents, until, tuple((kind, id) for kind, id in shown))
            for worker, service, events, documents, until, shown in found
        ]

    def claimed_count(self, services: Sequence[str]) -> int:
        return int(self.db.read("claimed_count", list(services)))

    def is_idle(self, services: Sequence[str], free: Sequence[str], *, until: float) -> bool:
        """Return whether no delivery of `services` is claimed, and none of `free` falls due until then."""
        return not self.db.read("is_busy", list(services), list(free), until)

    def next_due(self, services: Sequence[str], *, suspects: bool = False) -> float | None:
        """Return when the next waiting row of these services falls due; None: nothing waits for a time."""
        return min(self._next_dues(services, suspects=suspects).values(), default=None)

    def _next_dues(self, services: Sequence[str], *, suspects: bool) -> dict[str, float]:
        """Return when the next waiting row of each service falls due; those without one are left out.

        A row that waits for its key falls due when another one is settled, not at a time.
        """
        if not services:
            return {}
        pulse = self.db.fetch("pulse", list(services), [], [], [], -math.inf)
        found: dict[str, float] = {name: due for kind, name, due in pulse if kind == "due"}
        if suspects:
            for service, due in self.db.fetch("next_suspects", list(services)):
                found[service] = min(due, found.get(service, due))
        return {service: due for service, due in found.items() if due < PARKED_DUE}

    def overdue_suspects(self, services: Sequence[str]) -> list[str]:
        """Return the services that have due events which must run alone."""
        if not services:
            return []
        return [service for service, due in self.db.fetch("next_suspects", list(services)) if due <= self.now()]

    def failure_groups(
        self, *, service: str | None = None, since: float | None = None, limit: int = 1000
    ) -> list[FailureGroup]:
        """Return failure groups, the last seen first."""
        groups = self.db.read("failure_groups", service, 0.0 if since is None else since, limit)
        return self._read_groups(groups)

    def failure_group(self, fingerprint: str) -> FailureGroup | None:
        group = self.db.read("failure_group", fingerprint)
        return None if group is None else self._read_groups([group])[0]

    def _read_groups(self, stored: list[list[Any]]) -> list[FailureGroup]:
        finishes = {service: collection for service, _, collection, *_ in self.db.read("subscriptions")}
        names: list[str] = []
        for _, service, collection, *_ in stored:
            is_made = collection is not None and finishes.get(service, collection) != collection
            names.append(made_by(service, collection) if is_made else service)
        succeeded: dict[str, dict[str, int]] = {}
        for one in self.successes(set(names)):
            succeeded.setdefault(one.service, {})[one.version] = one.count
        return [read_group(group, succeeded.get(name, {})) for group, name in zip(stored, names, strict=True)]

    def group_statuses(self, fingerprint: str) -> dict[str, int]:
        """Count the documents whose last error is of this group, by status."""
        return dict(self.db.read("group_statuses", fingerprint))

    def successes(self, services: Iterable[str]) -> list[Successes]:
        """Return what each version of these services has finished."""
        return [Successes(*found) for found in self.db.read("successes", sorted(services))]

    @transactional
    def report_failure(
        self, unit: UnitOfWork, service: str, failure: Failure, *, collection: str | None = None
    ) -> None:
        """Count a failure that belongs to no event in its group: of other code, or reported from elsewhere."""
        unit.outcomes.add_failure(CountedFailure(service, collection, unit.grouped(failure), 0))

    @transactional
    def forget_group(self, unit: UnitOfWork, fingerprint: str) -> bool:
        """Delete a failure group; its documents and dead letters stay."""
        return unit.db.run("forget_group", fingerprint) > 0

    def versions(self) -> list[tuple[str, float, float]]:
        """Return each version of the workers with the times when it was first and last seen, oldest first."""
        return [tuple(version) for version in self.db.read("versions")]
