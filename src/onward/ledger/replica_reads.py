"""Reading from a copy of the database: a scope in which reads may be a few seconds old.

    with reading_from_replica(store) as reads:
        counts = store.document_counts()
    if reads.note: print(reads.note)

Only reads outside of transactions go to the replica, so nothing is ever written there, and what is changed is read
on the primary. A read that the replica cannot serve, or that must see what this process has written, goes to the
primary, too. Without a replica, a scope changes nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

DECISION_SECONDS = 1.0  # How long a scope stays with its server, where both can be used
NOTED_SECONDS = 1.0  # A replica that is less than this behind is as good as the primary


@dataclass(slots=True)
class ReplicaReads:
    """Where the reads of a scope come from."""

    behind_seconds: float | None = None  # By how much the replica is behind; None: it was not used
    problem: str = ""  # Why reads come from the primary
    from_primary: bool = False
    decided_at: float = -math.inf

    @property
    def is_decided(self) -> bool:
        return time.monotonic() - self.decided_at < DECISION_SECONDS

    @property
    def note(self) -> str:
        """What a reader should know; empty if nothing is wrong."""
        if self.problem:
            return f"The replica cannot be used, so this was read from the primary: {self.problem}"
        if self.from_primary or self.behind_seconds is None or self.behind_seconds < NOTED_SECONDS:
            return ""
        if math.isinf(self.behind_seconds):
            return "This was read from a replica that is behind, nobody knows by how much."
        return f"This was read from a replica that is {self.behind_seconds:,.0f} s behind."


_CURRENT: ContextVar[ReplicaReads | None] = ContextVar("replica_reads", default=None)


def current_reads() -> ReplicaReads | None:
    """Return the scope of the caller; None: it reads from the primary."""
    return _CURRENT.get()


@contextmanager
def reading_from_replica(store: Any) -> Iterator[ReplicaReads]:
    """Let reads outside of transactions go to the store's replica, if it has one."""
    reads = ReplicaReads()
    if getattr(store.db, "replica", None) is None:
        yield reads
        return
    token = _CURRENT.set(reads)
    try:
        yield reads
    finally:
        _CURRENT.reset(token)
