"""The breakers of dependencies, as the store keeps them for the whole fleet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from onward.ledger.requeue import return_try
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model import breaker as breaker_rules
from onward.model.breaker import Breaker
from onward.retry import redact


class Breakers(TransactionalStore):
    """Reads and changes breakers."""

    def breakers(self) -> list[Breaker]:
        """Return the breakers that are open, limited, paused or in an episode."""
        now = self.now()
        breakers = [breaker_rules.current(Breaker.from_dict(stored), now) for stored in self.db.read("breakers")]
        return [breaker for breaker in breakers if not breaker.quiet]

    def openings(self, dependency: str | None = None) -> list[dict[str, Any]]:
        """Return every opening of a breaker: from when to when, and why."""
        fields = ("dependency", "opened_at", "closed_at", "reason", "remedy")
        return [dict(zip(fields, opening, strict=True)) for opening in self.db.read("openings", dependency)]

    @transactional
    def open_breaker(
        self, unit: UnitOfWork, dependency: str, reason: str, *, remedy: str = "", by_hand: bool = False
    ) -> None:
        """Open a breaker and return the tries that its strikes have cost."""
        unit.lock_breakers()
        before = unit.breaker(dependency)
        for strike in before.strikes:
            return_try(unit, strike)
        after = breaker_rules.opened(before, unit.now, redact(reason), redact(remedy), by_hand=by_hand)
        unit.save_breaker(after)

    @transactional
    def close_breaker(self, unit: UnitOfWork, dependency: str, *, probed: bool = False) -> bool:
        """Close a breaker for a person, or after a health call (`probed`); return whether it changed.

        A health call does not close a breaker that a person has opened.
        """
        unit.lock_breakers()
        breaker = unit.breaker(dependency)
        closes = not breaker.by_hand and breaker.open if probed else breaker.failing_since is not None
        if closes:
            after = breaker_rules.closed(breaker, unit.now) if probed else breaker_rules.closed_by_hand(breaker)
            unit.save_breaker(after)
        return closes

    @transactional
    def record_health_doubt(self, unit: UnitOfWork, dependency: str) -> None:
        """Record that a document succeeded while the health call failed: in this episode that opens nothing."""
        unit.lock_breakers()
        breaker = unit.breaker(dependency)
        if breaker.episode_began_at is not None:
            unit.save_breaker(replace(breaker, health_doubted=True))

    @transactional
    def claim_probe(self, unit: UnitOfWork, dependency: str) -> bool:
        """Claim the due probe of an open breaker for a health call; return False if it is not due, or claimed."""
        unit.lock_breakers()
        breaker = unit.breaker(dependency)
        due = breaker_rules.is_health_probe_due(breaker, unit.now)
        if due:
            unit.save_breaker(breaker_rules.asking_health(breaker, unit.now))
        return due

    def next_change(self) -> float | None:
        """Return when a lease lapses or a breaker may allow claims; None: nothing is pending."""
        now = self.now()
        times = [breaker_rules.next_change(breaker, now) for breaker in self.breakers()]
        times.append(self.db.read("next_lapse"))
        return min((time for time in times if time is not None), default=None)
