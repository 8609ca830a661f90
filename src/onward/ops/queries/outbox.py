"""Events that leave for other programs: how many have not left yet, and why."""

from __future__ import annotations

from dataclasses import dataclass

from onward.ledger.store import Store
from onward.retry.redact import redact

LATE_SECONDS = 300.0  # an event that has waited longer needs a person
REPORT_SECONDS = 60.0  # the process that has the gateway reports more often than this


@dataclass(frozen=True, slots=True)
class OutboxBacklog:
    """The events in the outbox, and what the process that has the gateway reports."""

    waiting: int = 0
    oldest_waits_seconds: float = 0.0
    unroutable: int = 0  # events that no queue of the broker takes
    served: bool = False  # a process has the gateway
    trouble: str = ""  # why events do not arrive or leave, as that process reports it

    @property
    def late(self) -> bool:
        return self.oldest_waits_seconds > LATE_SECONDS


def read_outbox(store: Store) -> OutboxBacklog:
    """Read how far the outbox is behind; an old report says nothing about the present."""
    found, now = store.outbox_status(), store.now()
    served = now - found.gateway.at <= REPORT_SECONDS
    waits = 0.0 if found.oldest is None else max(0.0, now - found.oldest)
    trouble = redact(found.gateway.trouble) if served else ""
    return OutboxBacklog(found.waiting, round(waits, 3), found.unroutable, served, trouble)
