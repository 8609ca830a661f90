"""How a worker process claims for a service whose dependencies have limits.

It claims again when the next token comes. A call that begins too long after its claim is released, as the rate
would not hold; its token is lost. So a process learns how many calls it can begin in time, and how long that
takes. A larger slack costs a share of the rate: it grows only where calls begin too late.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.model.dependency_limits import CLOCK_STEP_SECONDS, ClaimLimits, DependencyLimit

if TYPE_CHECKING:
    from onward.runtime.handler_call import Call
    from onward.runtime.service import Service

FIRST_WAITING, MAX_WAITING = 64, 1000  # Calls that may wait for a slot in this process
GROWS_BELOW = 0.4  # Where all began within this share of the slack, twice as many may wait
CALM_BELOW, CALM_CLAIMS = 0.2, 32  # After this many claims that began within this share, the slack is halved
MAX_SLACK_SECONDS = 30.0


@dataclass(slots=True)
class LimitedClaims:
    """The claims of one service in one process."""

    service: Service
    limits: tuple[DependencyLimit, ...]
    slots: int = 1
    not_before: float = 0.0  # No token comes before this time, so nothing is claimed
    request: ClaimLimits = field(default_factory=lambda: ClaimLimits(()))  # That of the last claim
    slack: float = 0.0  # How long it may take until a call begins; 0: the least that the rate allows
    _asked_at: float = 0.0  # When `room` was called last
    _max_waiting: int = FIRST_WAITING
    _granted_at: float = 0.0  # Of the claim whose calls begin now
    _slack: float = 0.0  # That of this claim
    _latest: float = 0.0  # The longest time until one of its calls began, as a share of its slack
    _begun: int = 0
    _calm: int = 0

    def __post_init__(self) -> None:
        slacks = [one.rate.least_slack for one in self.limits if one.rate is not None]
        self._slack = min(slacks, default=0.0)

    def room(self, waiting: int, now: float) -> int:
        """Return how many rows may be claimed at most; 0 before the next token comes."""
        if now < self._asked_at - CLOCK_STEP_SECONDS:
            self.not_before = 0.0  # the clock was set back, and the claim begins a new bucket
        self._asked_at = now
        return max(0, self._max_waiting - waiting) if now >= self.not_before else 0

    def ahead_seconds(self, usual: float) -> float:
        """Return for how long calls may wait for a slot."""
        return min(usual, self._slack / 2) if self._slack else usual

    def begin(self, free_slots: int) -> ClaimLimits:
        """Return the limits for the next claim."""
        size = self.service.batch_size() if self.service.finishes is not None else None
        self.request = ClaimLimits(self.limits, size, max(0, free_slots), self.slack)
        return self.request

    def wait(self) -> bool:
        """Take over when to claim again; return whether a rate allowed less than was asked for."""
        self.not_before = self.request.next_claim or 0.0
        return self.request.next_claim is not None

    def note_start(self, call: Call) -> bool:
        """Record how long after its claim a call begins; return whether it was too late and released."""
        granted_at, begin_by = call.delivery.granted_at, call.delivery.begin_by
        if granted_at is None or begin_by is None:
            return False
        if granted_at != self._granted_at:
            if self._begun:
                self._learn()
            self._granted_at, self._slack, self._latest, self._begun = granted_at, begin_by - granted_at, 0.0, 0
        self._begun += 1
        self._latest = max(self._latest, (call.began - granted_at) / (begin_by - granted_at))
        return call.began > begin_by

    def _learn(self) -> None:
        if self._latest > 1.0:
            self._max_waiting = max(self.slots, self._max_waiting // 2)
            self.slack = min(MAX_SLACK_SECONDS, 2 * self._slack)
        elif self._latest < GROWS_BELOW and 2 * self._begun >= self._max_waiting:
            self._max_waiting = min(MAX_WAITING, 2 * self._max_waiting)
        self._calm = self._calm + 1 if self._latest < CALM_BELOW else 0
        if self._calm >= CALM_CLAIMS:
            self._calm, self.slack = 0, self._slack / 2
