"""Retries of failed batches: their events run when a service is idle, or in every tenth turn."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING

from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.documents import DocumentKey, DocumentState
from onward.model.ledger import BACKGROUND, FailedBatch
from onward.recovery.requeue_documents import DocumentRequeue, RequeuePlan
from onward.recovery.retry_decision import RetryJobRules
from onward.retry import redact
from onward.runtime.service import Registry

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

RECHECK_SECONDS = 120.0
"""The next check of a batch whose items are all on the ledger."""


class FailedBatchRetries:
    """Requeues the items of failed batches that are due."""

    def __init__(self, store: Store, registry: Registry, back: DocumentRequeue) -> None:
        self.store = store
        self.registry = registry
        self.back = back

    def next_due(self) -> float | None:
        """Return when the next batch is due; a batch that waits for a dependency does not count."""
        down = self.back.down()
        times = [
            at
            for name, at in self.store.next_batches().items()
            if (service := self.registry.services.get(name)) is not None and down.isdisjoint(service.needs)
        ]
        return min(times, default=None)

    def retry(self, id: str, rules: RetryJobRules) -> tuple[bool, str]:
        """Retry a batch; return whether it was retried, and the problem, if there was one."""
        try:
            return self._retry(id, rules), ""
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            problem = redact(f"failed batch {id} cannot be retried: {type(error).__name__}: {error}")
            log.error("%s", problem)
            self.store.count("retry_job_errors_total", type(error).__name__)
            self.store.reschedule_batch(id, self.store.now() + rules.interval)
            return False, problem

    def _retry(self, id: str, rules: RetryJobRules) -> bool:
        """Requeue its items, `at_once` in a transaction; the last transaction sets the next retry.

        Until then the batch stays due, so that after a crash the next retry job requeues the rest.
        """
        batch, down, most = self.store.failed_batch(id), self.back.down(), self.back.at_once
        service = self.registry.services.get(batch.service) if batch is not None else None
        if batch is None or service is None or not down.isdisjoint(service.needs):
            return False
        while True:
            items = self.store.idle_items(id, limit=most + 1)
            states = [state for state in self.store.states_of(items[:most]) if state.row is None]
            plan = self.back.plan(states, down)
            wait, _ = rules.ladder.failed_batch.backoff.bounds(batch.retry_count + 2)
            done = self.store.atomically(partial(self._put_back_slice, batch, items, states, plan, wait))
            if done is not None:
                return done

    def _put_back_slice(
        self,
        batch: FailedBatch,
        items: Sequence[DocumentKey],
        states: Sequence[DocumentState],
        plan: RequeuePlan,
        wait: float,
    ) -> bool | None:
        """Requeue a slice; return whether the batch was retried, or None if there is more of it."""
        if batch.id not in self.store.due_batches():
            return False  # another retry job was faster
        if not items:
            # All its items are on the ledger.
            self.store.reschedule_batch(batch.id, self.store.now() + RECHECK_SECONDS)
            return False
        if self.store.states_of([(state.collection, state.id) for state in states]) != states:
            return None  # they have changed meanwhile: read them again
        self.back.put_back(plan, priority=BACKGROUND)
        # If the events begin no round, the same items come again: do not loop.
        left = self.store.idle_items(batch.id, limit=1) if len(items) > self.back.at_once else []
        if left and left[0] != items[0]:
            return None
        self.store.claim_batch(batch.id, retry_count=batch.retry_count, until=self.store.now() + wait)
        self.store.count("failed_batches_retried_total", batch.service)
        return True
