"""The limits of a dependency: how many calls may begin in a period, and how many may be under way at once.

A rate is kept by a token bucket that the whole fleet shares. A claim takes a token for each call. The call begins
a moment later: within the `slack` of its grant, or not at all. So all calls that begin within a period were
granted within that period and the slack before it. Burst and refill are chosen such that no such span of time
has more grants than the rate allows.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

UNIT_SECONDS = {
    "s": 1.0, "sec": 1.0, "second": 1.0, "min": 60.0, "minute": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86_400.0,
}  # fmt: skip
ALLOWED_RATES = "allowed is a number per time, such as '10/s', '60/min', '100/15min', '5000/hour' or '20000/day'"
MAX_COUNT, MAX_UNITS = 1_000_000_000, 10_000
BURST_SECONDS, BURST_SHARE = (
    0.1,
    0.02,
)  # The calls of this time, or of this share of the period, may be granted at once
SLACK_SECONDS, SLACK_SHARE = 1.0, 0.05  # The least slack is this time, or this share of the period
CLOCK_STEP_SECONDS = 5.0  # A clock that goes back by more than this was set
ROUNDING = 1e-9  # Tokens come slower by this share, so that rounding never adds up to one more
CLOCK_RESOLUTION_SECONDS = 1e-6


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `count` calls begin in any period of `seconds`."""

    count: int
    seconds: float

    @classmethod
    def parse(cls, text: object) -> Rate:
        """Read a rate such as `60/min`; raise `ValueError` that says what is allowed."""
        units = "|".join(UNIT_SECONDS)
        found = re.fullmatch(rf"([0-9]+)/([0-9]+)?({units})", text, re.ASCII) if isinstance(text, str) else None
        if found is None:
            raise ValueError(ALLOWED_RATES)
        count, units_of_period = int(found[1]), int(found[2] or 1)
        if not (1 <= count <= MAX_COUNT and 1 <= units_of_period <= MAX_UNITS):
            raise ValueError(
                f"{ALLOWED_RATES}; up to {MAX_COUNT:,} calls in up to {MAX_UNITS:,} units, none of them 0"
            )
        return cls(count, units_of_period * UNIT_SECONDS[found[3]])

    @property
    def burst(self) -> int:
        """The most calls that are granted at one moment."""
        return max(1, int(self.count * min(BURST_SECONDS / self.seconds, BURST_SHARE)))

    @property
    def least_slack(self) -> float:
        return min(SLACK_SECONDS, self.seconds * SLACK_SHARE)

    def refill(self, slack: float) -> float:
        """Return how many tokens come in a second if a call may begin `slack` seconds after its grant.

        A span shorter than `seconds + slack` then has less than `burst + (count - burst + 1)` grants.
        """
        return (self.count - self.burst + 1) / (self.seconds + slack) * (1 - ROUNDING)


@dataclass(frozen=True, slots=True)
class Bucket:
    """The tokens of a dependency at a moment."""

    tokens: float
    at: float
    slack: float  # At least that of all grants whose calls may still begin
    slack_at: float  # When more than half of it was last granted, or when it last became less

    def taken(self, calls: int) -> Bucket:
        return Bucket(self.tokens - calls, self.at, self.slack, self.slack_at)


def refilled(rate: Rate, bucket: Bucket | None, now: float, slack: float) -> Bucket:
    """Return the bucket as it is now, for a claim whose calls begin within this slack.

    The slack of the bucket grows at once. It is halved when the calls of all grants that had more than the half of
    it are older than a period.
    """
    slack = max(slack, rate.least_slack)
    if bucket is None:
        return Bucket(float(rate.burst), now, slack, now)
    elapsed = now - bucket.at
    if elapsed < -CLOCK_STEP_SECONDS:
        return Bucket(min(bucket.tokens, float(rate.burst)), now, max(slack, bucket.slack), now)
    now = max(now, bucket.at)
    largest, largest_at = max(slack, bucket.slack), bucket.slack_at
    tokens = bucket.tokens + max(0.0, elapsed) * rate.refill(largest)
    if now - largest_at > rate.seconds + largest:
        largest, largest_at = max(slack, largest / 2), now
    largest_at = now if slack > largest / 2 else largest_at
    return Bucket(min(tokens, float(rate.burst)), now, largest, largest_at)


def next_grant(rate: Rate, bucket: Bucket) -> float:
    """Return when to claim again: at the next token, or where they come fast, when half a burst is there."""
    missing = max(1.0, rate.burst / 2) - bucket.tokens
    return bucket.at + max(0.0, missing) / rate.refill(bucket.slack) + CLOCK_RESOLUTION_SECONDS


@dataclass(frozen=True, slots=True)
class DependencyLimit:
    """What the code of a worker declares for a dependency."""

    dependency: str
    rate_text: str | None = None
    rate: Rate | None = None
    concurrency: int | None = None


@dataclass(slots=True)
class ClaimLimits:
    """The limits that a claim keeps, and what it returns about them."""

    limits: tuple[DependencyLimit, ...]
    documents_per_call: int | None = None  # None: an event is one call
    free_slots: int = 1
    slack: float = 0.0  # How long it takes in this process until a claimed call begins
    next_claim: float | None = None  # Set by the claim, if a rate allowed less than was asked for


@dataclass(frozen=True, slots=True)
class LimitState:
    """The limits of a dependency, and how far they are used at a moment."""

    dependency: str
    rate: str | None
    concurrency: int | None
    claimed: int  # Deliveries of all services that need it
    next_start: float | None  # When the next call may begin, if the rate allows none now

    @property
    def holds_claims(self) -> bool:
        """Whether nothing can be claimed now."""
        return self.next_start is not None or (self.concurrency is not None and self.claimed >= self.concurrency)
