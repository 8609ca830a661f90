"""Operations of people in the store: begun, kept alive by a lease while they run, ended, continued, listed."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.events import new_id
from onward.model.operations import Operation, OperationStatus

KEEP_OPERATIONS_SECONDS = 30 * 86_400.0
OPERATION_LEASE_SECONDS = 30.0  # A running operation that was not saved for this long is interrupted


class OperationRecords(TransactionalStore):
    """Stores operations. Each run has a number: of a run that another process has continued, nothing is saved."""

    @transactional
    def begin_operation(
        self,
        unit: UnitOfWork,
        title: str,
        who: str,
        via: str,
        *,
        action: str = "",
        parameters: Mapping[str, Any] | None = None,
        back: str = "",
    ) -> Operation:
        """Store a new operation as running; remove those that began more than `KEEP_OPERATIONS_SECONDS` ago."""
        id, given, now = new_id(), dict(parameters or {}), unit.now
        lease = now + OPERATION_LEASE_SECONDS
        unit.db.send("prune_operations", now - KEEP_OPERATIONS_SECONDS)
        unit.db.send("begin_operation", id, title, action, json.dumps(given), who, via, back, now, lease)
        status = OperationStatus.RUNNING
        return Operation(
            id, title, action, given, who, via, back, now, None, status, 0, 0, "", "", None, 1, stopping=False
        )

    @transactional
    def continue_operation(self, unit: UnitOfWork, id: str) -> Operation | None:
        """Make an interrupted, stopped or failed operation run again; None: it runs, is done, or is not known."""
        now = unit.now
        if not unit.db.run("continue_operation", id, now + OPERATION_LEASE_SECONDS, now):
            return None
        return self.operation(id)

    @transactional
    def save_operation(self, unit: UnitOfWork, id: str, run: int, done: int, total: int, text: str) -> bool | None:
        """Save the progress of a run and renew its lease.

        Return whether a person has asked it to stop; None: this run has ended, or another process continues it.
        """
        lease = unit.now + OPERATION_LEASE_SECONDS
        if not unit.db.run("save_operation", id, run, done, total, text, lease):
            return None
        return bool(unit.db.read("operation_stopping", id))

    @transactional
    def checkpoint_operation(self, unit: UnitOfWork, id: str, run: int, cursor: Any) -> bool:
        """Store from where the action can go on; return False if this run has ended, or was taken over."""
        return unit.db.run("checkpoint_operation", id, run, json.dumps(cursor)) > 0

    @transactional
    def end_operation(
        self,
        unit: UnitOfWork,
        id: str,
        run: int,
        status: OperationStatus,
        *,
        done: int,
        total: int,
        text: str = "",
        problem: str = "",
    ) -> bool:
        """Store how a run has ended; return False if it had ended before, or another process continues it."""
        return unit.db.run("end_operation", id, run, str(status), done, total, text, problem, unit.now) > 0

    @transactional
    def stop_operation(self, unit: UnitOfWork, id: str) -> bool:
        """Ask a running operation to stop; its process reads this with its next save."""
        return unit.db.run("stop_operation", id, unit.now) > 0

    def operation(self, id: str) -> Operation | None:
        row = self.db.read("operation", id, self.now())
        return _operation(row) if row else None

    def operations(
        self, *, status: str | None = None, who: str | None = None, before: str | None = None, limit: int = 100
    ) -> list[Operation]:
        """Return operations, the latest first; `before`: those that were begun before the one with this id."""
        rows = self.db.read("operations", self.now(), status, who, before, limit)
        return [_operation(row) for row in rows]


def _operation(row: Sequence[Any]) -> Operation:
    return Operation(*[*row[:-1], bool(row[-1])])
