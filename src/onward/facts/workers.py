"""Who is alive, what each is doing, and what nobody does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onward.facts.finding import short_ids, worker_command
from onward.facts.wording import iso

if TYPE_CHECKING:
    from onward import App
    from onward.ports.recovery import Held

EXAMPLES = 3


def worker_facts(app: App, host: str | None = None) -> dict[str, Any]:
    """Who is alive (on this host) and what each is doing, for programs."""
    store, now = app.store, app.store.now()
    everybody = store.workers()
    known = {one["worker"] for one in everybody}
    alive = [one for one in everybody if host is None or _host(one) == host]
    held: dict[str, list[Held]] = {}
    for claims in store.held(examples=EXAMPLES):
        held.setdefault(claims.worker, []).append(claims)
    short = short_ids(app, [id for those in held.values() for one in those for _, id in one.examples])
    versions: dict[str, int] = {}
    for one in alive:
        version = str(one.get("version", ""))
        versions[version] = versions.get(version, 0) + 1
    return {
        "workers": [
            _worker(one, [_held(each, short) for each in held.get(one["worker"], ())], now)
            for one in sorted(alive, key=lambda one: (_host(one), one["worker"]))
        ],
        "versions": versions,
        "silent": [
            {"worker": worker, "working": [_held(one, short) for one in those]}
            | {"given_back_in_seconds": round(max(0.0, max(one.until for one in those) - now), 3)}
            for worker, those in sorted(held.items())
            if worker not in known and (host is None or worker.partition(":")[0] == host)
        ],
        "not_served": _not_served(app, [one for one in everybody if not one.get("alone")]),
        "start": worker_command(store),
    }


def _host(about: dict[str, Any]) -> str:
    return str(about.get("host") or about["worker"].partition(":")[0])


def _worker(about: dict[str, Any], working: list[dict[str, Any]], now: float) -> dict[str, Any]:
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
        "working": working,
    }


def _held(one: Held, short: dict[str, str]) -> dict[str, Any]:
    return {
        "service": one.service,
        "events": one.events,
        "documents": one.documents,
        "examples": [f"{collection}/{short[id]}" for collection, id in one.examples],
    }


def _not_served(app: App, alive: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Services that no worker runs, though events wait for them; a process for suspects takes no others."""
    store, now = app.store, app.store.now()
    served = {name for one in alive for name in one.get("services", ())}
    found = []
    for service, counts in sorted(store.counts().items()):
        if service and counts.get("waiting") and service not in served:
            due = store.next_due([service], suspects=True)
            waits = max(0.0, now - due) if due is not None else 0.0
            found.append(
                {"service": service, "waiting": counts["waiting"], "oldest_waits_seconds": round(waits, 3)}
            )
    return found
