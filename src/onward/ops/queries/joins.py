"""Events that wait until documents are final, and what they wait for."""

from __future__ import annotations

from typing import Any

from onward.app import App
from onward.model.joins import OpenJoin
from onward.ops.queries.document_details import next_facts, next_steps_of
from onward.ops.text.format import iso
from onward.recovery.next_step import NextStep


def join_facts(app: App, *, limit: int, after: int = 0) -> list[dict[str, Any]]:
    """Return the events that wait for documents, the oldest first; `next` is the next step of one document."""
    store, now = app.store, app.store.now()
    joins = store.open_joins(limit=limit, after=after)
    states = store.states_of([one.open_documents[0] for one in joins if one.open_documents])
    steps = {(step.state.collection, step.state.id): step for step in next_steps_of(app, states)}
    return [_facts(one, now, next(filter(None, map(steps.get, one.open_documents[:1])), None)) for one in joins]


def _facts(one: OpenJoin, now: float, step: NextStep | None) -> dict[str, Any]:
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
        "next": step and next_facts(step) | {"document": f"{step.state.collection}/{step.state.id}"},
    }
