"""What a document's story is told from: its ledger row, the events that named it, its children; who has what."""

from __future__ import annotations

from onward.backends.relational.base import RelationalBase
from onward.model.recovery import LedgerRow
from onward.ports.recovery import Held


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

    def held(self, *, examples: int = 3) -> list[Held]:
        return [
            Held(worker, service, events, documents, until, tuple((kind, id) for kind, id in shown))
            for worker, service, events, documents, until, shown in self.db.glance("held", examples)
        ]
