"""Services: the event, the workers and the waiting events of each."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.ops.queries.workers import runs
from onward.ops.text.format import iso
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward.ledger.store import Store


def service_facts(store: Store) -> list[dict[str, Any]]:
    """Return every service that takes events, and every retired one whose dead letters are kept."""
    now, counts, alive = store.now(), store.counts(), alive_workers(store)
    subscriptions = {subscription.service: subscription for subscription in store.subscriptions()}
    set_aside: dict[str, int] = {}
    for batch in store.failed_batches():
        set_aside[batch.service] = set_aside.get(batch.service, 0) + len(batch.items)
    last_served = store.last_served()
    kept = {name for name, states in counts.items() if name and states.keys() - {"done", "unrouted"}}
    facts = []
    for name in sorted(subscriptions.keys() | kept):
        one, rows = subscriptions.get(name), counts.get(name, {})
        workers = sum(runs(worker, name) for worker in alive)
        waiting, claimed = rows.get("waiting", 0), rows.get("claimed", 0)
        due = store.next_due([name], suspects=True) if waiting else None
        facts.append(
            {
                "service": name,
                "state": _state(workers, unsettled=waiting + claimed, retired=one is None),
                "event": one.event_type if one else None,
                "finishes": one.finishes if one else None,
                "was": list(one.was) if one else [],
                "failed_queue": one.failed_queue if one else f"{name}.failed",
                "workers": workers,
                "waiting": waiting,
                "due": due is not None and due <= now,
                "claimed": claimed,
                "dead_letters": rows.get("dead", 0),
                "set_aside": set_aside.get(name, 0),
                "last_served": iso(last_served.get(name)),
                "seconds_ago": round(max(0.0, now - last_served[name]), 3) if name in last_served else None,
            }
        )
    return facts


def _state(workers: int, *, unsettled: int, retired: bool) -> str:
    if workers:
        return "served"
    if unsettled:
        return "unserved"
    return "retired" if retired else "idle"
