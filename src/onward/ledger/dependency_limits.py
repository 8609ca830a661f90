"""The limits of dependencies in the store: claims take tokens from shared buckets, and count claimed rows.

The row of a dependency is locked until the claim is committed, so that one claim decides at a time. What the code
of the worker declares is what holds; it is stored only to be shown.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from onward.ledger.transactions import TransactionalStore
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.dependency_limits import (
    Bucket,
    ClaimLimits,
    LimitState,
    Rate,
    next_grant,
    refilled,
)
from onward.model.ledger import Delivery


class LimitedClaim:
    """The limits of one claim, with their rows locked."""

    def __init__(self, unit: UnitOfWork, limits: ClaimLimits) -> None:
        self._unit = unit
        self._limits = limits
        limits.next_claim = None
        self._declared = declared = {one.dependency: one for one in limits.limits}
        stored = self._lock(sorted(declared))
        self._buckets: dict[str, Bucket] = {}
        self._outdated: list[str] = []  # Dependencies whose stored declaration is another one
        self._set_back: set[str] = set()  # Dependencies whose bucket is from before the clock was set back
        self._one_call_each = False
        self._calls: float = math.inf
        for name in sorted(declared):
            one = declared[name]
            tokens, at, slack, slack_at, rate_text, concurrency = stored[name]
            if (rate_text, concurrency) != (one.rate_text, one.concurrency):
                self._outdated.append(name)
            if one.rate is not None:
                before = None if tokens is None else Bucket(tokens, at, slack, slack_at)
                bucket = self._buckets[name] = refilled(one.rate, before, unit.now, limits.slack)
                if before is not None and bucket.at < before.at:
                    self._set_back.add(name)  # stored even if nothing is taken: else it would never refill
                self._calls = min(self._calls, max(0, math.floor(bucket.tokens)))
            if one.concurrency is not None:
                # A delivery counts as one, so it makes one call; its other documents return to the queue.
                self._one_call_each = True
                room = max(0, one.concurrency - unit.db.read("claimed_for_dependency", name))
                # Claims ahead of the free slots must not take the room that other processes could use.
                self._calls = min(self._calls, max(min(limits.free_slots, room), room // 2))

    def _lock(self, names: Sequence[str]) -> dict[str, tuple[Any, ...]]:
        db = self._unit.db
        found = {name: tuple(values) for name, *values in db.fetch("lock_dependency_limits", names)}
        missing = [name for name in names if name not in found]
        if missing:
            for name in missing:
                db.send("add_dependency_limit", name)
            found = {name: tuple(values) for name, *values in db.fetch("lock_dependency_limits", names)}
        return found

    def rows(self, limit: int) -> int:
        """Return how many rows may be claimed: each makes one call or more."""
        if self._calls < 1:
            self._set_next_claim()
            self._save(taken=False)
        return int(min(limit, self._calls))

    def take(self, rows: Sequence[tuple[int, int | None, bool]]) -> list[int]:
        """Take tokens for as many rows as they suffice for; return the number of calls of each of them.

        A row is given by the number of its documents, the most that a call may get after halving has begun, and
        whether it has expired: that is settled without a call. The number of calls is an upper bound: documents
        that are final or missing when they are read need no call.
        """
        left, calls = self._calls, list[int]()
        for documents, batch, expired in rows:
            if left < 1:
                break
            calls.append(0 if expired else int(min(self._calls_of(documents, batch), left)))
            left -= calls[-1]
        for name, bucket in self._buckets.items():
            self._buckets[name] = bucket.taken(sum(calls))
        if left < 1:
            self._set_next_claim()
        self._save(taken=bool(calls))
        return calls

    def _calls_of(self, documents: int, batch: int | None) -> int:
        size = self._limits.documents_per_call
        if size is None or self._one_call_each:
            return 1
        return max(1, math.ceil(documents / min(size, batch or size)))

    def _set_next_claim(self) -> None:
        empty = [(one.rate, self._buckets[name]) for name, one in self._declared.items() if name in self._buckets]
        times = [next_grant(rate, bucket) for rate, bucket in empty if rate is not None and bucket.tokens < 1]
        self._limits.next_claim = max(times, default=None)

    def _save(self, *, taken: bool) -> None:
        for name, one in self._declared.items():
            bucket = self._buckets.get(name) if taken or name in self._set_back else None
            if bucket is not None:
                values = (bucket.tokens, bucket.at, bucket.slack, bucket.slack_at)
                self._unit.db.send("save_dependency_limit", *values, one.rate_text, one.concurrency, name)
            elif name in self._outdated:
                self._unit.db.send("declare_dependency_limit", one.rate_text, one.concurrency, name)

    def mark(self, deliveries: Sequence[Delivery], calls: Sequence[int]) -> None:
        """Set how many calls each delivery may make, and by when they begin."""
        granted_at = min((bucket.at for bucket in self._buckets.values()), default=None)
        slacks = [one.rate.least_slack for one in self._declared.values() if one.rate is not None]
        for delivery, granted in zip(deliveries, calls, strict=True):
            delivery.calls = granted
            if granted_at is not None:
                delivery.granted_at = granted_at
                delivery.begin_by = granted_at + max(self._limits.slack, min(slacks))


class DependencyLimits(TransactionalStore):
    def limit_states(self) -> list[LimitState]:
        """Return the limits of dependencies as workers have declared them last, and how far they are used."""
        now = self.now()
        states = []
        for name, tokens, at, slack, slack_at, rate_text, concurrency in self.db.fetch("dependency_limits"):
            if rate_text is None and concurrency is None:
                continue
            next_start = None
            if rate_text is not None and tokens is not None:
                rate = Rate.parse(rate_text)
                bucket = refilled(rate, Bucket(tokens, at, slack, slack_at), now, 0.0)
                next_start = next_grant(rate, bucket) if bucket.tokens < 1 else None
            claimed = self.db.read_unlocked("claimed_for_dependency", name)
            states.append(LimitState(name, rate_text, concurrency, claimed, next_start))
        return states
