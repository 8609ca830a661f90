"""What callers have published in transactions of their own, until it is moved to the ledger.

A caller's connection inserts one row into the table `incoming`; the row is committed with whatever else that
transaction wrote. `runtime/incoming_publications.py` moves rows to the ledger. Each is deleted in the transaction
that publishes it, so it is published once, whenever a process dies.
"""

from __future__ import annotations

from dataclasses import dataclass

from onward.ledger.transactions import TransactionalStore
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.ledger import MAX_COMMIT_BYTES, PerKey

MAX_ROWS = 200  # That one transaction moves
FOREIGN_EVENT, PUBLICATION = 0, 1  # Values of the column `format`


@dataclass(frozen=True, slots=True)
class IncomingRow:
    """A row that was deleted from `incoming`, to be published in the same transaction."""

    id: int
    at: float  # When it was inserted, by the clock of the database
    format: int
    priority: int
    delay: float
    expires: float | None  # Seconds after `at`
    body: bytes


@dataclass(frozen=True, slots=True)
class IncomingCount:
    """How many rows wait to be moved, and since when the oldest does."""

    waiting: int = 0
    oldest: float | None = None


class Incoming(TransactionalStore):
    """The part of the store that moves what callers have published."""

    def has_incoming(self) -> bool:
        return bool(self.db.read_unlocked("has_incoming"))

    def take_incoming(self, id: int | None = None) -> list[IncomingRow]:
        """Delete the oldest rows, or one row, and return them; call it in a transaction that publishes them.

        At most `MAX_ROWS` rows are taken, and no more after `MAX_COMMIT_BYTES` bytes.
        """
        subscriptions = UnitOfWork(self.db, self.now()).subscriptions()
        if any(one.per_key == PerKey.ORDERED for one in subscriptions):
            self.db.lock("ordered incoming")  # else another process could publish newer rows first
        if id is not None:
            rows = self.db.fetch("take_incoming_row", id)
        else:
            rows = self.db.fetch("take_incoming", MAX_ROWS, MAX_COMMIT_BYTES)
        return [IncomingRow(*row) for row in sorted(rows)]

    def incoming_count(self) -> IncomingCount:
        return IncomingCount(*self.db.read_unlocked("incoming_counts"))
