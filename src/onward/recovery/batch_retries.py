"""Retrying failed batches: when nothing else is to be done, or in every tenth turn of a service."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from functools import partial

from onward.model.documents import DocumentState
from onward.model.ledger import BACKGROUND, FailedBatch
from onward.ports import Key, Store, StoreFull, StoreUnavailable
from onward.recovery.deciding import Rules
from onward.recovery.putting_back import Plan, PuttingBack
from onward.retry import redact
from onward.runtime.service import Registry

log = logging.getLogger("onward")

RECHECK = 120.0
"""Seconds until a batch is looked at again all of whose items are being tried."""


class BatchRetries:
    """Puts the items of failed batches back when their time has come."""

    def __init__(self, store: Store, registry: Registry, back: PuttingBack) -> None:
        self.store = store
        self.registry = registry
        self.back = back

    def next_due(self) -> float | None:
        """When the next batch falls due; one that waits for a dependency does not count."""
        down = self.back.down()
        times = [
            at
            for name, at in self.store.next_batches().items()
            if (service := self.registry.services.get(name)) is not None and down.isdisjoint(service.needs)
        ]
        return min(times, default=None)

    def retry(self, id: str, rules: Rules) -> tuple[bool, str]:
        """Retry a batch; answer whether that was done, and what went wrong, if something did."""
        try:
            return self._retry(id, rules), ""
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            problem = redact(f"failed batch {id} cannot be retried: {type(error).__name__}: {error}")
            log.error("%s", problem)
            self.store.count("retry_job_errors_total", type(error).__name__)
            self.store.hurry_batch(id, self.store.now() + rules.interval)
            return False, problem

    def _retry(self, id: str, rules: Rules) -> bool:
        """Put its items back a slice at a time; with the last one the next retry is set.

        Until then it stays due: whoever comes after one that was killed halfway does the rest.
        """
        batch, down, most = self.store.failed_batch(id), self.back.down(), self.back.at_once
        service = self.registry.services.get(batch.service) if batch is not None else None
        if batch is None or service is None or not down.isdisjoint(service.needs):
            return False
        while True:
            items = self.store.idle_items(id, limit=most + 1)
            states = [one for one in self.store.states_of(items[:most]) if one.row is None]
            plan = self.back.plan(states, down)
            wait, _ = rules.ladder.failed_batch.backoff.bounds(batch.retry_count + 2)
            done = self.store.atomically(partial(self._put_back_slice, batch, items, states, plan, wait))
            if done is not None:
                return done

    def _put_back_slice(
        self, batch: FailedBatch, items: Sequence[Key], states: Sequence[DocumentState], plan: Plan, wait: float
    ) -> bool | None:
        """Put a slice back; answer whether the batch is done with, None: there is more of it."""
        if batch.id not in self.store.due_batches():
            return False  # somebody else was faster
        if not items:
            # All of it is being tried just now, which takes as long as it takes.
            self.store.hurry_batch(batch.id, self.store.now() + RECHECK)
            return False
        if self.store.states_of([(one.collection, one.id) for one in states]) != states:
            return None  # something happened to them meanwhile
        self.back.put_back(plan, priority=BACKGROUND)
        # Where events begin no round, the same items would come for ever.
        left = self.store.idle_items(batch.id, limit=1) if len(items) > self.back.at_once else []
        if left and left[0] != items[0]:
            return None
        self.store.claim_batch(batch.id, retry_count=batch.retry_count, until=self.store.now() + wait)
        self.store.count("failed_batches_retried_total", batch.service)
        return True
