"""What the retry job would do now, and when it last did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.facts.wording import counted, iso
from onward.recovery.deciding import Next, Rules, decide
from onward.retry.presets import OTHER_ROUNDS

if TYPE_CHECKING:
    from onward.ports import Store

MISSED_RUNS = 3
"""A retry job that has missed so many runs is not running."""
LOOKED_THROUGH = 10_000
"""Of the documents that the retry job should look at, so many are judged here."""
EVER = 1e12
LAST_RUN = "retry_job_last_success_timestamp_seconds"


@dataclass(frozen=True, slots=True)
class Overdue:
    """What the retry job would put back if it ran now."""

    documents: int = 0
    in_batches: int = 0
    """Documents of failed batches whose time has come."""

    @property
    def total(self) -> int:
        return self.documents + self.in_batches


def without_event(store: Store, rules: Rules, before: float) -> dict[str, int]:
    """Unfinished documents that no event is under way for, and that nothing was heard of since then."""
    rounds = {name: rules.ladder.max_rounds(name) for name in store.document_counts()}
    return store.stuck(before=before, max_rounds=rounds, others=OTHER_ROUNDS)


def retry_job(store: Store, rules: Rules) -> dict[str, Any]:
    """When the retry job last ran, and how many documents may wait for it."""
    last = store.totals().get(LAST_RUN, {}).get("")
    ago = store.now() - last if last else None
    return {
        "last_run": iso(last),
        "seconds_ago": ago,
        "interval_seconds": rules.interval,
        "overdue": ago is None or ago > MISSED_RUNS * rules.interval,
        "waiting": sum(without_event(store, rules, EVER).values()),
    }


def overdue(store: Store, rules: Rules) -> Overdue:
    """What the retry job of any app would put back now; what waits for a dependency does not count."""
    down = {one.dependency for one in store.breakers() if one.open}
    able = [one for one in store.subscriptions() if down.isdisjoint(one.needs)]
    collections = sorted({one.finishes for one in able if one.finishes is not None})
    keys = store.to_look_at(limit=LOOKED_THROUGH, collections=collections)
    now = store.now()
    decided = (decide(one, rules, now, live=one.row is not None) for one in store.states_of(keys))
    documents = sum(one.next in (Next.DUE, Next.EXHAUSTED) for one in decided)
    services, ids = {one.service for one in able}, set(store.due_batches())
    batches = [one for one in store.failed_batches() if one.id in ids and one.service in services]
    return Overdue(documents, sum(len(one.items) for one in batches))


def say_overdue(late: Overdue) -> str:
    """What waits for somebody to run the retry job."""
    verb = "is" if late.total == 1 else "are"
    return f"{counted(late.total, 'document')} {verb} due to be retried, and no worker runs"
