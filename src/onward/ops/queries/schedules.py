"""The schedules that apps have declared: when each ran last, and when it runs next."""

from __future__ import annotations

from typing import Any

from onward.ledger.store import Store
from onward.ops.text.format import iso
from onward.runtime.schedules import ScheduleState

LATE_SECONDS = 120.0  # a tick that is overdue by this time was not published: no process of its app runs
MAX_SCHEDULES = 10_000


def schedule_facts(store: Store) -> list[dict[str, Any]]:
    """Return every schedule that a process has seen, by its name."""
    now = store.now()
    names = [state.id for state in store.states(ScheduleState, limit=MAX_SCHEDULES)]
    return [_facts(one, now) for one in store.get_many(ScheduleState, names)]


def _facts(one: ScheduleState, now: float) -> dict[str, Any]:
    next_at = None if one.next_tick is None else one.next_tick.timestamp()
    return {
        "schedule": one.id,
        "runs": one.definition,
        "timezone": one.timezone,
        "missed": one.missed,
        "last_tick": iso(None if one.last_tick is None else one.last_tick.timestamp()),
        "next_tick": iso(next_at),
        "late": next_at is not None and now - next_at > LATE_SECONDS,
    }
