"""What a document's story is told from: its ledger row, the events that named it, its children; who has what."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.relational.base import RelationalBase
from onward.model.recovery import LedgerRow
from onward.ports.recovery import Held, QueueStanding

HIGHEST = 2**31
"""Above every priority."""


class TellingStore(RelationalBase):
    """See `onward.ports.Recovery`."""

    def row(self, id: int) -> LedgerRow | None:
        found = self.db.read("told_row", id)
        return LedgerRow(*found) if found else None

    def rows_naming(self, collection: str, id: str, *, limit: int = 20) -> list[LedgerRow]:
        found = self.db.read("rows_naming", collection, id, limit)
        return [LedgerRow(*one) for one in reversed(found)]

    def children_counts(self, collection: str, id: str) -> dict[str, dict[str, int]]:
        counts: dict[str, dict[str, int]] = {}
        for kind, status, count in self.db.read("children_counts", f"{collection}/{id}"):
            counts.setdefault(kind, {})[status] = count
        return counts

    def queues(self, services: Sequence[str]) -> list[QueueStanding]:
        now, found = self.now(), []
        for service, waiting, claimed, dead in self.db.glance("queue_counts", list(services)):
            due: list[float] = []
            unannounced: list[float] = []
            level = self.db.glance("next_priority", service, HIGHEST)
            while level is not None:
                due.append(self.db.glance("next_due", service, level))
                if self.wired:
                    unannounced.append(self.db.glance("next_unannounced", service, level, now))
                level = self.db.glance("next_priority", service, level)
            due.append(self.db.glance("next_suspect", service))
            found.append(
                QueueStanding(service, waiting, claimed, dead, _oldest(due, now), _oldest(unannounced, now))
            )
        return found

    def held(self, *, examples: int = 3) -> list[Held]:
        return [
            Held(worker, service, events, documents, until, tuple((kind, id) for kind, id in shown))
            for worker, service, events, documents, until, shown in self.db.glance("held", examples)
        ]


def _oldest(times: Sequence[float | None], now: float) -> float | None:
    return min((one for one in times if one is not None and one <= now), default=None)
