"""Live workers and their events; services; dependencies, and whether they are down."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from onward.app import App
from onward.ledger.store import Store
from onward.model.breaker import Breaker
from onward.model.dependency_limits import LimitState
from onward.model.ledger_views import WorkerClaims
from onward.ops.lookup import short_ids, worker_command
from onward.ops.text.format import iso
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

EXAMPLES = 3


def runs(worker: dict[str, Any], service: str) -> bool:
    """Return whether a worker takes events of a service; a process for one suspect event takes no others."""
    return service in worker.get("services", ()) and not worker.get("alone")


def worker_facts(app: App, host: str | None = None) -> dict[str, Any]:
    """Return the live workers (of this host) and their events, for programs."""
    store, now = app.store, app.store.now()
    everybody = alive_workers(store)
    known = {one["worker"] for one in everybody}
    alive = [one for one in everybody if host is None or _host(one) == host]
    held: dict[str, list[WorkerClaims]] = {}
    for claims in store.claims_by_worker(examples=EXAMPLES):
        held.setdefault(claims.worker, []).append(claims)
    short = short_ids(app, [id for those in held.values() for one in those for _, id in one.examples])
    working = {
        worker: [
            {"service": one.service, "events": one.events, "documents": one.documents}
            | {"examples": [f"{collection}/{short[id]}" for collection, id in one.examples]}
            for one in those
        ]
        for worker, those in held.items()
    }
    return {
        "workers": [
            _worker(one, now) | {"working": working.get(one["worker"], [])}
            for one in sorted(alive, key=lambda one: (_host(one), one["worker"]))
        ],
        "versions": Counter(str(one.get("version", "")) for one in alive),
        "silent": [
            {"worker": worker, "working": working[worker]}
            | {"given_back_in_seconds": round(max(0.0, max(one.until for one in those) - now), 3)}
            for worker, those in sorted(held.items())
            if worker not in known and (host is None or worker.partition(":")[0] == host)
        ],
        "not_served": _not_served(store, everybody),
        "start": worker_command(store),
    }


def _host(about: dict[str, Any]) -> str:
    return str(about.get("host") or about["worker"].partition(":")[0])


def _worker(about: dict[str, Any], now: float) -> dict[str, Any]:
    since = about.get("since")
    return {
        "worker": about["worker"],
        "host": _host(about),
        "pid": about.get("pid"),
        "since": iso(since),
        "up_seconds": round(max(0.0, now - since), 3) if since is not None else None,
        "last_seen": iso(about["last_seen"]),
        "seen_seconds_ago": round(max(0.0, now - about["last_seen"]), 3),
        "version": about.get("version", ""),
        "services": sorted(about.get("services", ())),
        "alone": bool(about.get("alone")),
    }


def _not_served(store: Store, alive: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the services that no worker runs, though events wait for them."""
    found = []
    for service, counts in sorted(store.counts().items()):
        if service and counts.get("waiting") and not any(runs(one, service) for one in alive):
            due = store.next_due([service], suspects=True)
            waits = round(max(0.0, store.now() - due), 3) if due is not None else 0.0
            found.append({"service": service, "waiting": counts["waiting"], "oldest_waits_seconds": waits})
    return found


def service_facts(store: Store) -> list[dict[str, Any]]:
    """Return every service that takes events, and every retired one whose dead letters are kept."""
    now, counts, alive = store.now(), store.counts(), alive_workers(store)
    subscriptions = {subscription.service: subscription for subscription in store.subscriptions()}
    set_aside = Counter(batch.service for batch in store.failed_batches() for _ in batch.items)
    last_served = store.last_served()
    kept = {name for name, states in counts.items() if name and states.keys() - {"done", "unrouted"}}
    facts = []
    for name in sorted(subscriptions.keys() | kept):
        one, rows = subscriptions.get(name), counts.get(name, {})
        workers = sum(runs(worker, name) for worker in alive)
        waiting, claimed = rows.get("waiting", 0), rows.get("claimed", 0)
        due = store.next_due([name], suspects=True) if waiting else None
        unserved = "unserved" if waiting or claimed else "retired" if one is None else "idle"
        facts.append(
            {
                "service": name,
                "state": "served" if workers else unserved,
                "event": one.event_type if one else None,
                "finishes": one.finishes if one else None,
                "was": list(one.was) if one else [],
                "failed_queue": one.failed_queue if one else f"{name}.failed",
                "workers": workers,
                "waiting": waiting,
                "due": due is not None and due <= now,
                "claimed": claimed,
                "dead_letters": rows.get("dead", 0),
                "set_aside": set_aside[name],
                "last_served": iso(last_served.get(name)),
                "seconds_ago": round(max(0.0, now - last_served[name]), 3) if name in last_served else None,
            }
        )
    return facts


# -- dependencies


def known_dependencies(app: App) -> list[str]:
    """Return the dependencies that services need or once needed."""
    needed = {name for one in app.store.subscriptions() for name in one.needs}
    return sorted(needed | {breaker.dependency for breaker in app.store.breakers()})


def breaker_facts(app: App) -> list[dict[str, Any]]:
    """Return every dependency, for programs: since when it is down, why, and the waiting events."""
    now, counts, subscriptions = app.store.now(), app.store.counts(), app.store.subscriptions()
    states = {one.dependency: one for one in app.store.breakers()}
    limits = {one.dependency: one for one in app.store.limit_states()}
    facts = []
    for name in known_dependencies(app):
        breaker = states.get(name) or Breaker(name)
        state = _state(breaker, now)
        services = sorted(one.service for one in subscriptions if name in one.needs)
        waiting = sum(counts.get(service, {}).get("waiting", 0) for service in services)
        facts.append(
            {
                "dependency": name,
                "state": state,
                "since": iso(breaker.failing_since),
                "seconds": _failing_seconds(breaker, now) if breaker.failing_since is not None else None,
                "openings_in_episode": breaker.openings,
                "needs_person": breaker.needs_person(now),
                "reason": redact(breaker.reason),
                "remedy": redact(breaker.remedy),
                "by_hand": breaker.by_hand,
                "next_probe": iso(breaker.next_probe),
                "paused_until": iso(breaker.paused_until) if state == "paused" else None,
                "limit": breaker.limit,
                "services": services,
                "waiting": waiting if state != "closed" else 0,
                **_limit_facts(app, name, limits.get(name), services, waiting),
            }
        )
    return facts


def _limit_facts(
    app: App, name: str, state: LimitState | None, services: Sequence[str], waiting: int
) -> dict[str, Any]:
    """Return the declared limits of a dependency, and how many events wait for them now."""
    declared = app.registry.dependencies.get(name)
    if state is None and declared is not None:  # no worker has claimed with them yet
        state = LimitState(name, declared.rate, declared.concurrency, 0, None)
    held = state is not None and state.holds_claims and waiting > 0
    due = app.store.next_due(list(services)) if held else None
    waits = due is not None and due <= app.store.now()
    return {
        "rate": state.rate if state else None,
        "concurrency": state.concurrency if state else None,
        "claimed": state.claimed if state else 0,
        "waiting_for_limit": waiting if waits else 0,
        "next_start": iso(state.next_start) if state and waits else None,
    }


def _state(breaker: Breaker, now: float) -> str:
    if breaker.open:
        return "open"
    if breaker.paused_until is not None and breaker.paused_until > now:
        return "paused"
    if breaker.unreached_since is not None:
        return "unreached"
    return "recovering" if breaker.limit is not None or breaker.episode_began_at is not None else "closed"


def _failing_seconds(breaker: Breaker, now: float) -> float:
    """Return for how long a dependency has failed, on and off, without working for long in between."""
    return max(0.0, now - breaker.failing_since) if breaker.failing_since is not None else 0.0


@dataclass(frozen=True, slots=True)
class Outage:
    """A dependency that fails now, or failed a moment ago."""

    dependency: str
    state: str  # `open`, `paused`, `unreached`, `recovering` or `closed`
    since: float | None
    seconds: float
    openings: int
    reason: str
    remedy: str
    by_hand: bool
    needs_person: bool
    asked_in_seconds: float | None
    asked_again: float | None
    paused_until: float | None
    services: tuple[str, ...]  # that need it
    waiting: int  # events of these services
    read_at: float

    def as_dict(self) -> dict[str, Any]:
        times = ("since", "asked_again", "paused_until", "read_at")
        return asdict(self) | {name: iso(getattr(self, name)) for name in times}


def read_outages(store: Store) -> list[Outage]:
    """Return the dependencies that fail, are paused by a rate limit, or failed a moment ago."""
    now = store.now()
    states = [(one, _state(one, now)) for one in store.breakers()]
    found = [
        (one, state)
        for one, state in states
        if state != "closed" and (state != "recovering" or one.failing_since is not None)
    ]
    if not found:
        return []
    subscriptions = store.subscriptions()
    needed = {
        one.dependency: tuple(sorted(each.service for each in subscriptions if one.dependency in each.needs))
        for one, _ in found
    }
    waiting = store.waiting_counts(sorted({service for services in needed.values() for service in services}))
    return [
        Outage(
            breaker.dependency,
            state,
            breaker.failing_since,
            _failing_seconds(breaker, now),
            breaker.openings,
            redact(breaker.reason),
            redact(breaker.remedy),
            breaker.by_hand,
            breaker.needs_person(now),
            max(0.0, breaker.next_probe - now) if breaker.next_probe else None,
            breaker.next_probe,
            breaker.paused_until if state == "paused" else None,
            needed[breaker.dependency],
            sum(waiting[service] for service in needed[breaker.dependency]),
            now,
        )
        for breaker, state in found
    ]


def opening_facts(one: dict[str, Any]) -> dict[str, Any]:
    return {
        "dependency": one["dependency"],
        "opened_at": iso(one["opened_at"]),
        "closed_at": iso(one["closed_at"]),
        "reason": redact(one["reason"]),
        "remedy": redact(one["remedy"]),
    }
