"""The documents that are due for the retry job, and the time of its last run."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from onward.ops.text.format import iso
from onward.recovery.retry_decision import RetryAction, RetryJobRules, decide
from onward.retry.ladder import OTHER_ROUNDS

if TYPE_CHECKING:
    from onward.ledger.store import Store

MISSED_RUNS = 3
"""A retry job that has missed this many runs counts as not running."""
MAX_DOCUMENTS_READ = 10_000
"""At most this many documents are examined to count what is overdue."""
EVER = 1e12
LAST_RUN = "retry_job_last_success_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Overdue:
    """The documents that the retry job would put back if it ran now."""

    documents: int = 0
    in_batches: int = 0
    """Documents of failed batches that are due."""

    @property
    def total(self) -> int:
        return self.documents + self.in_batches


@dataclass(frozen=True, slots=True)
class RetryJobStatus:
    """When the retry job last ran, and how many documents may wait for it."""

    last_run: float | None = None
    seconds_ago: float | None = None
    interval_seconds: float = 0.0
    overdue: bool = True
    waiting: int = 0

    def as_dict(self) -> dict[str, Any]:
        return asdict(self) | {"last_run": iso(self.last_run)}


def without_event(store: Store, rules: RetryJobRules, before: float) -> dict[str, int]:
    """Count by collection the unfinished documents that have no event and have not changed since `before`."""
    rounds = {name: rules.ladder.max_rounds(name) for name in store.document_counts()}
    return store.stuck(before=before, max_rounds=rounds, others=OTHER_ROUNDS)


def retry_job_status(store: Store, rules: RetryJobRules) -> RetryJobStatus:
    """Return when the retry job last ran, and how many documents may wait for it."""
    last = store.totals().get(LAST_RUN, {}).get("")
    ago = store.now() - last if last else None
    late = ago is None or ago > MISSED_RUNS * rules.interval
    return RetryJobStatus(last, ago, rules.interval, late, sum(without_event(store, rules, EVER).values()))


def overdue(store: Store, rules: RetryJobRules) -> Overdue:
    """Count what the retry job would put back now; documents that wait for a dependency do not count."""
    down = {breaker.dependency for breaker in store.breakers() if breaker.open}
    able = [subscription for subscription in store.subscriptions() if down.isdisjoint(subscription.needs)]
    collections = sorted({one.finishes for one in able if one.finishes is not None})
    keys = store.due_for_check(limit=MAX_DOCUMENTS_READ, collections=collections)
    now = store.now()
    decided = (decide(state, rules, now, live=state.row is not None) for state in store.states_of(keys))
    documents = sum(one.action in (RetryAction.DUE, RetryAction.EXHAUSTED) for one in decided)
    services, ids = {one.service for one in able}, set(store.due_batches())
    batches = [batch for batch in store.failed_batches() if batch.id in ids and batch.service in services]
    return Overdue(documents, sum(len(batch.items) for batch in batches))
