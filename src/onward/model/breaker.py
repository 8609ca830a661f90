"""A dependency's breaker: one frozen value, and pure functions that say what it becomes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

STRIKES_TO_OPEN = 5
DOCUMENTS_TO_OPEN = 3
FIRST_PROBE = 10.0
SLOWEST_PROBE = 300.0
NO_LIMIT = 256
"""A limit that has grown this far is lifted."""


@dataclass(frozen=True, slots=True)
class Strike:
    """A failure that may yet turn out to be the dependency's fault, and is then given back."""

    row: int
    ids: tuple[str, ...]
    charged: bool = True


@dataclass(frozen=True, slots=True)
class Breaker:
    """What the fleet knows of a dependency; while it is open, nothing that needs it is claimed."""

    dependency: str
    open: bool = False
    strikes: tuple[Strike, ...] = ()
    opened_at: float | None = None
    reason: str = ""
    remedy: str = ""
    by_hand: bool = False
    next_probe: float | None = None
    probe_delay: float = FIRST_PROBE
    probe_row: int | None = None
    limit: int | None = None
    """How many events that need it may be under way in the whole fleet; None: as many as like."""
    paused_until: float | None = None

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Breaker:
        strikes = tuple(Strike(row, tuple(ids), charged) for row, ids, charged in stored.pop("strikes", ()))
        return cls(**stored, strikes=strikes)

    def as_dict(self) -> dict[str, Any]:
        return {
            "dependency": self.dependency,
            "open": self.open,
            "strikes": [[strike.row, list(strike.ids), strike.charged] for strike in self.strikes],
            "opened_at": self.opened_at,
            "reason": self.reason,
            "remedy": self.remedy,
            "by_hand": self.by_hand,
            "next_probe": self.next_probe,
            "probe_delay": self.probe_delay,
            "probe_row": self.probe_row,
            "limit": self.limit,
            "paused_until": self.paused_until,
        }

    @property
    def quiet(self) -> bool:
        """Nothing to remember: it could as well not exist."""
        return self == Breaker(self.dependency)


def opened(breaker: Breaker, now: float, reason: str, remedy: str = "", *, by_hand: bool = False) -> Breaker:
    """Open it; its strikes are the caller's to give back.

    One that is open already stays as it is, unless a person takes it in hand.
    """
    if breaker.open:
        if not by_hand:
            return breaker
        return replace(breaker, reason=reason, remedy=remedy, by_hand=True, next_probe=None, probe_row=None)
    return replace(
        breaker,
        open=True,
        strikes=(),
        opened_at=now,
        reason=reason,
        remedy=remedy,
        by_hand=by_hand,
        next_probe=None if by_hand else now + FIRST_PROBE,
        probe_delay=FIRST_PROBE,
        probe_row=None,
        limit=None,
    )


def closed(breaker: Breaker) -> Breaker:
    """Close it; the fleet starts again with one event at a time."""
    return Breaker(breaker.dependency, limit=1, paused_until=breaker.paused_until)


def struck(breaker: Breaker, strike: Strike, now: float, reason: str) -> Breaker:
    """Count a failure; enough in a row, on enough different documents, open it.

    Failures whose documents overlap (a batch and its halves) count as one document.
    """
    strikes = (*breaker.strikes, strike)[-STRIKES_TO_OPEN * 2 :]
    if len(strikes) >= STRIKES_TO_OPEN and _documents_hit(strikes) >= DOCUMENTS_TO_OPEN:
        return opened(breaker, now, reason)
    return replace(breaker, strikes=strikes)


def _documents_hit(strikes: tuple[Strike, ...]) -> int:
    apart: list[set[str]] = []
    for strike in strikes:
        ids = set(strike.ids) or {f"row {strike.row}"}
        if all(ids.isdisjoint(other) for other in apart):
            apart.append(ids)
    return len(apart)


def succeeded(breaker: Breaker, row: int, now: float) -> Breaker:
    """A work that needed the dependency went well: forget strikes, let more through.

    An open breaker is closed by its probe alone; what was under way when it opened proves nothing.
    """
    if breaker.open:
        return closed(breaker) if breaker.probe_row == row else breaker
    limit = None if breaker.limit is None or breaker.limit + 1 >= NO_LIMIT else breaker.limit + 1
    over = breaker.paused_until is not None and breaker.paused_until <= now
    return replace(breaker, strikes=(), limit=limit, paused_until=None if over else breaker.paused_until)


def probing(breaker: Breaker, row: int | None, now: float) -> Breaker:
    """One probe is let through; the next comes later, doubling up to five minutes."""
    delay = min(breaker.probe_delay * 2, SLOWEST_PROBE)
    return replace(breaker, probe_row=row, probe_delay=delay, next_probe=now + delay)


def paused(breaker: Breaker, until: float) -> Breaker:
    """Rate limited: wait, without opening."""
    return replace(breaker, paused_until=max(until, breaker.paused_until or until))


def allowance(breaker: Breaker, now: float, under_way: int) -> int | None:
    """How many more events may be claimed now; None: no limit. An open breaker allows its due probe."""
    if breaker.open:
        return 1 if breaker.next_probe is not None and breaker.next_probe <= now else 0
    if breaker.paused_until is not None and breaker.paused_until > now:
        return 0
    return None if breaker.limit is None else max(0, breaker.limit - under_way)


def next_change(breaker: Breaker, now: float) -> float | None:
    """When time alone will allow something that is not allowed now."""
    at = breaker.next_probe if breaker.open else breaker.paused_until
    return at if at is not None and at > now else None
