"""Dependencies, whether they are down, and taking one out of service by hand."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from onward.facts.actions import log_action
from onward.facts.finding import Unusable
from onward.facts.wording import iso, one_line
from onward.model.breaker import Breaker
from onward.recovery.phrasing import command
from onward.retry.redact import redact

if TYPE_CHECKING:
    from onward import App


def breaker_facts(app: App) -> list[dict[str, Any]]:
    """Every dependency, for programs: since when it is down, why, and what waits for it."""
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
                "since": iso(breaker.opened_at),
                "seconds": max(0.0, now - breaker.opened_at) if breaker.opened_at is not None else None,
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
    return "recovering" if breaker.limit is not None else "closed"


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
    """What services need, or once needed."""
    needed = {name for one in app.store.subscriptions() for name in one.needs}
    return sorted(needed | {one.dependency for one in app.store.breakers()})


def check_dependency(app: App, name: str) -> None:
    """Refuse a dependency that nobody needs: it is likely misspelt."""
    known = known_dependencies(app)
    if name not in known:
        names = ", ".join(known) or "none, as no service has been started that needs one"
        raise Unusable(f"there is no dependency {one_line(name)!r}; known are: {names}")


# -- by hand


def open_by_hand(app: App, name: str, reason: str, *, who: str | None = None, via: str = "cli") -> Breaker | None:
    """Take a dependency out of service; answer its breaker as it was if it was open already."""
    check_dependency(app, name)
    before = next((one for one in app.store.breakers() if one.dependency == name and one.open), None)
    remedy = f"when it is back: {close_command(name)}"
    app.store.open_breaker(name, one_line(redact(reason), 500), remedy=remedy, by_hand=True)
    log_action(app, "breakers open", {"dependency": name, "reason": redact(reason)}, 1, who=who, via=via)
    return before


def close_by_hand(app: App, name: str, *, who: str | None = None, via: str = "cli") -> bool:
    """Let events that need a dependency go on; answer whether it was down."""
    check_dependency(app, name)
    was_open = any(one.open for one in app.store.breakers() if one.dependency == name)
    if was_open:
        app.store.close_breaker(name)
        log_action(app, "breakers close", {"dependency": name}, 1, who=who, via=via)
    return was_open


def close_command(name: str) -> str:
    """What brings a dependency back."""
    return command("onward breakers close", name)
