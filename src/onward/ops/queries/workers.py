"""Live workers, their events, and services without a worker."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from onward.ops.lookup import short_ids, worker_command
from onward.ops.text.format import iso
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward import App
    from onward.model.ledger_views import WorkerClaims

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
        "not_served": _not_served(app, everybody),
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


def _held(one: WorkerClaims, short: dict[str, str]) -> dict[str, Any]:
    return {
        "service": one.service,
        "events": one.events,
        "documents": one.documents,
        "examples": [f"{collection}/{short[id]}" for collection, id in one.examples],
    }


def _not_served(app: App, alive: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the services that no worker runs, though events wait for them."""
    store, now = app.store, app.store.now()
    found = []
    for service, counts in sorted(store.counts().items()):
        if service and counts.get("waiting") and not any(runs(one, service) for one in alive):
            due = store.next_due([service], suspects=True)
            waits = max(0.0, now - due) if due is not None else 0.0
            found.append(
                {"service": service, "waiting": counts["waiting"], "oldest_waits_seconds": round(waits, 3)}
            )
    return found
