"""The outbox: events that leave for other programs, stored in the transaction that made them.

`publish.py` puts them in. The process that has the gateway reads them, publishes them to a broker, and deletes
those that the broker has confirmed.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, fields

from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.events import new_id
from onward.model.ledger import GatewayReport, OutboxStatus, OutgoingEvent

MAX_REFUSED_SECONDS = 60.0  # The longest pause before an event is published again that the broker has refused


class Outbox(TransactionalStore):
    """The part of the store that a gateway uses."""

    def due_outgoing(self, *, limit: int, since: float = 0.0) -> list[OutgoingEvent]:
        """Return events that are due to be published, and were not due before `since`."""
        return [OutgoingEvent(*row) for row in self.db.fetch("due_outgoing", since, self.now(), limit)]

    @transactional
    def settle_outgoing(
        self,
        unit: UnitOfWork,
        confirmed: Sequence[int],
        *,
        refused: Sequence[int] = (),
        unroutable: Sequence[int] = (),
    ) -> None:
        """Delete events that the broker has taken, and keep the others.

        Refused ones are published again after a pause; unroutable ones when a queue takes their routing key.
        """
        if confirmed:
            unit.db.send("delete_outgoing", list(confirmed))
        if refused:
            unit.db.send("defer_outgoing", unit.now, MAX_REFUSED_SECONDS, list(refused))
        if unroutable:
            unit.db.send("unroutable_outgoing", list(unroutable))

    def unroutable_outgoing(self) -> list[OutgoingEvent]:
        """Return the oldest event of each routing key that no queue of the broker takes."""
        return [OutgoingEvent(*row) for row in self.db.fetch("unroutable_keys")]

    @transactional
    def reroute_outgoing(self, unit: UnitOfWork, routing_key: str) -> None:
        """Make the unroutable events of a routing key due: a queue takes them now."""
        unit.db.send("reroute_outgoing", unit.now, routing_key)

    def oldest_outgoing(self) -> float | None:
        """Return when the oldest event that waits to be published was put into the outbox."""
        at: float | None = self.db.read_unlocked("oldest_outgoing")
        return at

    def next_outgoing(self) -> float | None:
        """Return when the next event is due to be published; a time in the past if one is due already."""
        due: float | None = self.db.read_unlocked("next_outgoing")
        return due

    def outbox_status(self) -> OutboxStatus:
        waiting, oldest, unroutable = self.db.read_unlocked("outbox_counts")
        return OutboxStatus(waiting, oldest, unroutable, self.gateway_report())

    def gateway_report(self) -> GatewayReport:
        stored = self.db.read_unlocked("gateway_report") or {}
        # A newer release may report more.
        return GatewayReport(**{one.name: stored[one.name] for one in fields(GatewayReport) if one.name in stored})

    @transactional
    def store_name(self, unit: UnitOfWork) -> str:
        """Return the name of this store, which no other store has."""
        unit.db.run("name_store", new_id())
        name: str = unit.db.read_unlocked("store_name")
        return name

    @transactional
    def report_gateway(self, unit: UnitOfWork, report: GatewayReport) -> None:
        """Store what the process that has the gateway reports."""
        unit.db.send("name_store", new_id())
        unit.db.send("report_gateway", json.dumps(asdict(report)))
