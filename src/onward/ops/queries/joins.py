"""Events that wait until documents are final, and what they wait for."""

from __future__ import annotations

from typing import Any

from onward.ledger.store import Store
from onward.model.joins import OpenJoin
from onward.ops.text.format import iso


def join_facts(store: Store, *, limit: int, after: int = 0) -> list[dict[str, Any]]:
    """Return the events that wait for documents, the oldest first."""
    now = store.now()
    return [_facts(one, now) for one in store.open_joins(limit=limit, after=after)]


def _facts(one: OpenJoin, now: float) -> dict[str, Any]:
    return {
        "join": one.id,
        "event": one.event_type,
        "event_id": one.event_id,
        "open": one.remaining,
        "total": one.remaining + one.processed + one.failed + one.removed,
        "processed": one.processed,
        "failed": one.failed,
        "removed": one.removed,
        "allow_failed": one.allow_failed,
        "source": one.source,
        "since": iso(one.created_at),
        "waits_seconds": round(max(0.0, now - one.created_at), 3),
        "open_documents": [f"{collection}/{id}" for collection, id in one.open_documents],
    }
