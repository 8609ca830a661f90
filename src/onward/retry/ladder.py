"""The ladder: one policy for each time scale."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onward.retry.backoff import Exponential, Schedule
from onward.retry.policy import RetryPolicy

_MINUTE = 60.0
OTHER_ROUNDS = 5  # the maximum for collections that `Ladder.rounds` does not name


@dataclass(frozen=True, slots=True)
class Ladder:
    """The policies of the rungs that need no operator, with their default numbers.

    `not_ready` and `transient` (or `fetching`) count tries within a round; `failed_batch` counts retries of
    a batch; `retry_job` counts rounds, whose maximum depends on the collection.
    """

    # The first try and 8 retries.
    not_ready: RetryPolicy = RetryPolicy(
        Exponential(0.25, cap=60.0, jitter=True), max_tries=9, max_elapsed=30 * _MINUTE, name="not ready"
    )
    transient: RetryPolicy = RetryPolicy(Exponential(5.0, cap=60.0), max_tries=3, name="transient")
    fetching: RetryPolicy = RetryPolicy(Exponential(2.0, cap=60.0), max_tries=3, name="fetching")
    failed_batch: RetryPolicy = RetryPolicy(
        Schedule(tuple(minutes * _MINUTE for minutes in (1, 5, 10, 20, 40, 60))),
        persistent_from=10,
        name="failed batch",
    )
    retry_job: RetryPolicy = RetryPolicy(Exponential(300.0, cap=3600.0), name="retry job")
    rounds: Mapping[str, int] = field(
        default_factory=lambda: {"archives": 3, "messages": 3, "chunks": 5, "threads": 5}, hash=False
    )

    def max_rounds(self, collection: str) -> int:
        """Return the maximum number of rounds for a document of this collection."""
        return self.rounds.get(collection, OTHER_ROUNDS)
