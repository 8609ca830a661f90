"""A dependency's breaker: one frozen value, and pure functions that return the next value.

A breaker is about a dependency; a charged try is about a document. A failure is the dependency's if nothing
has succeeded with it since and either its health call says no, or enough different documents failed in a row.
An error may also open the breaker by itself (`opens`), or pause it (a rate limit). A lone document that cannot
reach the dependency waits for it without a charge.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

STRIKES_TO_OPEN = 5
DOCUMENTS_TO_OPEN = 3
MAX_STRIKES_FACTOR = 6
FIRST_PROBE_SECONDS = 10.0
SLOWEST_PROBE_SECONDS = 300.0
HEALTH_HEAD_START_SECONDS = 1.0  # A health call is asked this long before a document may probe
EPISODE_END_SECONDS = 600.0  # An episode is over when the breaker has been closed for this long
LONG_EPISODE_SECONDS = 24 * 3600.0  # An episode that has lasted longer needs a person
MAX_ROW_OPENINGS = 5  # How often a row may help to open breakers; then its failures are charged, no evidence
MAX_RATE_LIMITED = 20  # How often a rate limit costs one ledger row nothing
NO_LIMIT = 256  # A limit that has grown this far is lifted


@dataclass(frozen=True, slots=True)
class BreakerRules:
    """What may be set: when breakers open, how often an open one is probed, and how fast the fleet restarts."""

    failures: int = STRIKES_TO_OPEN
    documents: int = DOCUMENTS_TO_OPEN
    probe_seconds: float = FIRST_PROBE_SECONDS
    probe_max_seconds: float = SLOWEST_PROBE_SECONDS
    restart_seconds: float = 0.0
    """How long it takes at least until twice as many events may run at once; 0: each success allows one more."""

    def next_delay(self, delay: float) -> float:
        """Return the delay of the probe after one with this delay."""
        return min(delay * 2, self.probe_max_seconds)


USUAL_RULES = BreakerRules()


@dataclass(frozen=True, slots=True)
class Strike:
    """A failure that may turn out to be the dependency's; if it was charged, it is given back then."""

    row: int
    ids: tuple[str, ...]
    charged: bool = True


@dataclass(frozen=True, slots=True)
class Breaker:
    """The state of a dependency, shared by the fleet. While it is open, only probes that need it are claimed."""

    dependency: str
    open: bool = False
    strikes: tuple[Strike, ...] = ()  # Failures since the last success
    opened_at: float | None = None
    reason: str = ""
    remedy: str = ""
    by_hand: bool = False
    next_probe: float | None = None
    probe_delay: float = FIRST_PROBE_SECONDS
    probe_row: int | None = None
    probes: int = 0  # How many documents have probed since it opened
    document_turn: bool = False  # The health call was made. As it may be wrong, a document may probe, too
    limit: int | None = None  # How many events that need it may be running in the whole fleet; None: no limit
    paused_until: float | None = None
    episode_began_at: float | None = None  # When it first opened in this episode; flapping is one episode
    openings: int = 0  # How often it opened in this episode
    closed_at: float | None = None  # When it last closed in this episode
    worked: bool = False  # A document has succeeded since it last opened
    health_doubted: bool = False  # In this episode a document succeeded while the health call said no
    unreached_since: float | None = None  # Documents wait, uncharged, as it was not reached: too few to open it

    @classmethod
    def from_dict(cls, stored: dict[str, Any]) -> Breaker:
        strikes = tuple(Strike(row, tuple(ids), charged) for row, ids, charged in stored.pop("strikes", ()))
        return cls(**stored, strikes=strikes)

    def as_dict(self) -> dict[str, Any]:
        stored = {name: getattr(self, name) for name in self.__slots__}
        stored["strikes"] = [[strike.row, list(strike.ids), strike.charged] for strike in self.strikes]
        return stored

    @property
    def quiet(self) -> bool:
        return self == Breaker(self.dependency)

    @property
    def limits_claims(self) -> bool:
        return self.open or self.limit is not None or self.paused_until is not None

    @property
    def failing_since(self) -> float | None:
        """When the present failures began: an episode, or documents that wait because it was not reached."""
        return self.episode_began_at if self.episode_began_at is not None else self.unreached_since

    def needs_person(self, now: float) -> bool:
        """Return whether it is not expected to recover without a person."""
        long = self.failing_since is not None and now - self.failing_since > LONG_EPISODE_SECONDS
        return self.by_hand or long or (self.open and bool(self.remedy))


def current(breaker: Breaker, now: float) -> Breaker:
    """Return the breaker without an episode that is over."""
    closed_at = None if breaker.open or breaker.strikes else breaker.closed_at
    if closed_at is None or now - closed_at < EPISODE_END_SECONDS:
        return breaker
    restarts_since = closed_at if breaker.limit is not None else None
    limit, until = breaker.limit, breaker.paused_until
    return Breaker(breaker.dependency, limit=limit, paused_until=until, closed_at=restarts_since)


def opened(
    breaker: Breaker,
    now: float,
    reason: str,
    remedy: str = "",
    *,
    by_hand: bool = False,
    rules: BreakerRules = USUAL_RULES,
) -> Breaker:
    """Open it; the caller gives back the tries of its strikes.

    An open one stays as it is, unless a person opens it. In an episode the delay between probes goes on growing.
    """
    if breaker.open:
        if not by_hand:
            return breaker
        return replace(breaker, reason=reason, remedy=remedy, by_hand=True, next_probe=None, probe_row=None)
    delay = rules.probe_seconds if breaker.episode_began_at is None else breaker.probe_delay
    return Breaker(
        breaker.dependency,
        open=True,
        opened_at=now,
        reason=reason,
        remedy=remedy,
        by_hand=by_hand,
        next_probe=None if by_hand else now + delay,
        probe_delay=delay,
        document_turn=breaker.health_doubted,
        paused_until=breaker.paused_until,
        episode_began_at=now if breaker.failing_since is None else breaker.failing_since,
        openings=breaker.openings + 1,
        health_doubted=breaker.health_doubted,
    )


def closed(breaker: Breaker, now: float, *, worked: bool = False) -> Breaker:
    """Close it; the fleet starts again with one event at a time. `worked`: a document has succeeded."""
    return Breaker(
        breaker.dependency,
        reason=breaker.reason,
        remedy=breaker.remedy,
        probe_delay=breaker.probe_delay,
        limit=1,
        paused_until=breaker.paused_until,
        episode_began_at=breaker.episode_began_at,
        openings=breaker.openings,
        closed_at=now,
        worked=worked,
        health_doubted=breaker.health_doubted,
    )


def struck(
    breaker: Breaker,
    strike: Strike,
    now: float,
    reason: str,
    remedy: str = "",
    *,
    rules: BreakerRules = USUAL_RULES,
) -> Breaker:
    """Count a failure; enough in a row, on enough different documents, open it.

    Failures whose documents overlap (a batch and its halves) count as one document. In an episode in which
    documents have succeeded, each opening asks for more: part of the dependency may be down, and the
    documents of that part must not hold back the others again and again.
    """
    factor = min(2 * breaker.openings, MAX_STRIKES_FACTOR) if breaker.worked else 1
    strikes = (*breaker.strikes, strike)[-rules.failures * MAX_STRIKES_FACTOR :]
    if len(strikes) >= rules.failures * factor and _documents_hit(strikes) >= rules.documents:
        return opened(breaker, now, reason, remedy, rules=rules)
    return replace(breaker, strikes=strikes)


def _documents_hit(strikes: tuple[Strike, ...]) -> int:
    apart: list[set[str]] = []
    for strike in strikes:
        ids = set(strike.ids) or {f"row {strike.row}"}
        if all(ids.isdisjoint(other) for other in apart):
            apart.append(ids)
    return len(apart)


def unreached(breaker: Breaker, now: float, reason: str) -> Breaker:
    """Record that a document waits, uncharged, for a dependency that was not reached."""
    since = now if breaker.unreached_since is None else breaker.unreached_since
    return replace(breaker, unreached_since=since, reason=reason)


def succeeded(breaker: Breaker, row: int, now: float, rules: BreakerRules = USUAL_RULES) -> Breaker:
    """A work that needed the dependency succeeded: forget strikes, allow more at once.

    An open breaker is closed by its probe alone; what was running when it opened proves nothing.
    """
    if breaker.open:
        return closed(breaker, now, worked=True) if breaker.probe_row == row else breaker
    limit = breaker.limit
    if limit is not None:
        limit = max(limit, min(limit + 1, _restart_limit(breaker, now, rules)))
        limit = None if limit >= NO_LIMIT else limit
    over = breaker.paused_until is not None and breaker.paused_until <= now
    in_episode = breaker.episode_began_at is not None
    return replace(
        breaker,
        strikes=(),
        limit=limit,
        paused_until=None if over else breaker.paused_until,
        worked=in_episode,
        unreached_since=None,
        reason=breaker.reason if in_episode else "",
        remedy=breaker.remedy if in_episode else "",
    )


def _restart_limit(breaker: Breaker, now: float, rules: BreakerRules) -> int:
    """Return how many events may run at once by now: the number doubles in `restart_seconds`."""
    if not rules.restart_seconds or breaker.closed_at is None:
        return NO_LIMIT
    doublings = (now - breaker.closed_at) / rules.restart_seconds
    return NO_LIMIT if 2**doublings >= NO_LIMIT else int(2**doublings)


def probing(breaker: Breaker, row: int, now: float, rules: BreakerRules = USUAL_RULES) -> Breaker:
    """Let a document probe; the next probe comes later, doubling up to `probe_max_seconds`."""
    delay = rules.next_delay(breaker.probe_delay)
    later = replace(breaker, probe_delay=delay, next_probe=now + delay)
    return replace(later, probe_row=row, probes=breaker.probes + 1, document_turn=False)


def asking_health(breaker: Breaker, now: float, rules: BreakerRules = USUAL_RULES) -> Breaker:
    """Let the health call probe; a moment later, and until it is asked again, a document may."""
    delay = rules.next_delay(breaker.probe_delay) if breaker.document_turn else breaker.probe_delay
    at = now + HEALTH_HEAD_START_SECONDS
    return replace(breaker, probe_row=None, document_turn=True, probe_delay=delay, next_probe=at)


def takes_newest(breaker: Breaker) -> bool:
    """Return whether the next document to try is the newest that waits. The oldest and the newest alternate."""
    return (breaker.probes + len(breaker.strikes)) % 2 == 0


def is_health_probe_due(breaker: Breaker, now: float) -> bool:
    """Return whether to make the health call: it comes first, and again if no document probes after it."""
    at = _next_health_probe(breaker)
    return at is not None and at <= now


def _next_health_probe(breaker: Breaker) -> float | None:
    if not breaker.open or breaker.next_probe is None:
        return None
    return breaker.next_probe + (breaker.probe_delay if breaker.document_turn else 0.0)


def paused(breaker: Breaker, until: float) -> Breaker:
    """Rate limited: wait, without opening."""
    return replace(breaker, paused_until=max(until, breaker.paused_until or until))


def allowance(breaker: Breaker, now: float, running: int, *, has_health: bool = False) -> int | None:
    """Return how many more events may be claimed now; None: no limit. An open breaker allows its due probe."""
    if breaker.open:
        due = breaker.next_probe is not None and breaker.next_probe <= now
        return int(due and (not has_health or breaker.document_turn))
    if breaker.paused_until is not None and breaker.paused_until > now:
        return 0
    return None if breaker.limit is None else max(0, breaker.limit - running)


def next_change(breaker: Breaker, now: float) -> float | None:
    """Return when time alone will allow something that is not allowed now."""
    times = (breaker.next_probe, _next_health_probe(breaker)) if breaker.open else (breaker.paused_until,)
    return min((at for at in times if at is not None and at > now), default=None)
