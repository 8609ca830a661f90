"""Dependencies, and whether they are down."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onward.model.breaker import Breaker
from onward.ops.text.format import iso
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App


def breaker_facts(app: App) -> list[dict[str, Any]]:
    """Return every dependency, for programs: since when it is down, why, and the waiting events."""
    now, counts = app.store.now(), app.store.counts()
    states = {one.dependency: one for one in app.store.breakers()}
    users: dict[str, list[str]] = {}
    for one in app.store.subscriptions():
        for name in one.needs:
            users.setdefault(name, []).append(one.service)
    facts = []
    for name in known_dependencies(app):
        breaker = states.get(name) or Breaker(name)
        state = _state(breaker, now)
        services = sorted(users.get(name, ()))
        waiting = sum(counts.get(service, {}).get("waiting", 0) for service in services)
        facts.append(
            {
                "dependency": name,
                "state": state,
                "since": iso(breaker.failing_since),
                "seconds": failing_seconds(breaker, now) if breaker.failing_since is not None else None,
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
            }
        )
    return facts


def _state(breaker: Breaker, now: float) -> str:
    if breaker.open:
        return "open"
    if breaker.paused_until is not None and breaker.paused_until > now:
        return "paused"
    if breaker.unreached_since is not None:
        return "unreached"
    return "recovering" if breaker.limit is not None or breaker.episode_began_at is not None else "closed"


@dataclass(frozen=True, slots=True)
class Outage:
    """A dependency that fails now, or failed a moment ago."""

    dependency: str
    state: str
    """`open`, `paused`, `unreached`, `recovering` or `closed`."""
    since: float | None
    seconds: float
    openings: int
    reason: str
    remedy: str
    by_hand: bool
    needs_person: bool
    next_probe: float | None
    probed_in_seconds: float | None

    def as_dict(self) -> dict[str, Any]:
        facts = asdict(self)
        facts["asked_in_seconds"] = facts.pop("probed_in_seconds")
        return facts | {"since": iso(self.since), "asked_again": iso(facts.pop("next_probe"))}


def read_outages(app: App) -> list[Outage]:
    """Return the dependencies that fail now, or failed a moment ago."""
    now = app.store.now()
    return [
        Outage(
            breaker.dependency,
            _state(breaker, now),
            breaker.failing_since,
            failing_seconds(breaker, now),
            breaker.openings,
            breaker.reason,
            breaker.remedy,
            breaker.by_hand,
            breaker.needs_person(now),
            breaker.next_probe,
            max(0.0, breaker.next_probe - now) if breaker.next_probe else None,
        )
        for breaker in app.store.breakers()
        if breaker.open or breaker.failing_since is not None
    ]


def failing_seconds(breaker: Breaker, now: float) -> float:
    """Return for how long a dependency has failed, on and off, without working for long in between."""
    return max(0.0, now - breaker.failing_since) if breaker.failing_since is not None else 0.0


def opening_facts(one: dict[str, Any]) -> dict[str, Any]:
    """Once that a breaker was open, for programs."""
    return {
        "dependency": one["dependency"],
        "opened_at": iso(one["opened_at"]),
        "closed_at": iso(one["closed_at"]),
        "reason": redact(one["reason"]),
        "remedy": redact(one["remedy"]),
    }


def known_dependencies(app: App) -> list[str]:
    """Return the dependencies that services need or once needed."""
    needed = {name for one in app.store.subscriptions() for name in one.needs}
    return sorted(needed | {breaker.dependency for breaker in app.store.breakers()})
