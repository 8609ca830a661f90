"""The retry job: requeues unfinished documents and failed batches that are due.

Several at once do no harm: the decision on a document that has changed meanwhile is made again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, TypeAlias

from onward.ledger.store_errors import StoreError, StoreFull, StoreUnavailable
from onward.model.documents import DocumentKey, DocumentState, Status
from onward.model.ledger import BACKGROUND, FailedBatch
from onward.recovery.common_failures import CommonFailures
from onward.recovery.next_step import describe_error
from onward.recovery.requeue_documents import DocumentRequeue, RequeuePlan
from onward.recovery.retry_decision import RetryAction, RetryDecision, RetryJobRules, RetryReason, decide
from onward.retry import OnwardError, redact
from onward.runtime.incoming_publications import move_incoming
from onward.runtime.registry import Registry

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

ROLE = "retry job"
ROLE_SECONDS = 60.0
PAGE = 10_000  # due documents that are listed at once
MAX_DANGLING_CHECKS = 20_000  # documents that each full run checks for ledger rows that no longer exist
MAX_CONFLICT_RETRIES = 3  # the decisions on a slice are made again this often, before it is halved
BATCH_RECHECK_SECONDS = 120.0  # the next check of a failed batch whose items are all on the ledger


_Decided: TypeAlias = list[tuple[DocumentState, RetryDecision]]


class _DocumentsChanged(OnwardError):
    """Documents changed between the decision and the commit."""


@dataclass(slots=True)
class RetryJobRun:
    requeued: dict[str, int] = field(default_factory=dict)
    exhausted: dict[str, int] = field(default_factory=dict)
    expired: dict[str, int] = field(default_factory=dict)  # given up because of their deadline
    batches: int = 0  # failed batches that were retried
    later: int = 0
    held_up: int = 0  # documents that are due, but wait for a dependency, or are not complete
    problems: list[str] = field(default_factory=list)
    led: bool = True  # False if another retry job is running; then nothing was done

    @property
    def touched(self) -> int:
        counts = (*self.requeued.values(), *self.exhausted.values(), *self.expired.values())
        return sum(counts) + self.batches

    def add(self, other: RetryJobRun) -> None:
        for name in ("requeued", "exhausted", "expired"):
            mine, others = getattr(self, name), getattr(other, name)
            for collection, count in others.items():
                mine[collection] = mine.get(collection, 0) + count
        self.later += other.later
        self.held_up += other.held_up
        self.problems += other.problems


class RetryJob:
    """Decides on each unfinished document that is due for a check, and requeues it or gives it up.

    The events of failed batches run when a service is idle, or in every tenth turn.
    """

    def __init__(self, store: Store, registry: Registry, rules: RetryJobRules, *, holder: str) -> None:
        self.store = store
        self.rules = rules
        self.holder = holder
        # Called between two transactions; True leaves the rest to another run.
        self.stopped: Callable[[], bool] = lambda: False
        self._services, self._events = registry.services, registry.events
        self._back = DocumentRequeue(store, registry)
        self._full_at: float | None = None
        self._held_up_until = 0.0  # the next check of documents that could not be requeued

    def next_due(self) -> float | None:
        """Return when something is due; what waits for a dependency that is down does not count."""
        down = self._back.down()
        times = [
            at
            for name, at in self.store.next_batches().items()
            if (service := self._services.get(name)) is not None and down.isdisjoint(service.needs)
        ]
        check = self.store.next_check(self._back.collections(down))
        return min(times if check is None else [*times, check], default=None)

    def next_chance(self) -> float | None:
        """Return when something can be requeued; what could not be requeued in the last run does not count."""
        due = self.next_due()
        return None if due == self._held_up_until else due

    def is_due(self) -> bool:
        return self._is_full() or ((due := self.next_due()) is not None and due <= self.store.now())

    def _is_full(self) -> bool:
        """Return whether an interval has passed since the last full run of any process."""
        now = self.store.now()
        if self._full_at is None or not 0 <= now - self._full_at < self.rules.interval:
            self._full_at = self.store.totals().get("retry_job_last_success_timestamp_seconds", {}).get("")
        return self._full_at is None or not 0 <= now - self._full_at < self.rules.interval

    def run(self, *, full: bool | None = None) -> RetryJobRun:
        """Do the due checks. A full run, once in an interval, also checks for dangling rows and sets gauges."""
        began, run = time.perf_counter(), RetryJobRun()
        while move_incoming(self.store, self._events()) and not self.stopped():
            pass
        full = self._is_full() if full is None else full
        if not self.store.acquire_role(ROLE, self.holder, ROLE_SECONDS):
            run.led = False
            return run
        try:
            if full:
                self._clear_dangling_rows(run)
            for id in self.store.due_batches():
                if not self.stopped():
                    self._retry_batch(id, run)
            self._retry_documents(run)
            if full:
                self._set_gauges(time.perf_counter() - began)
        except StoreError:
            raise  # the store cannot be written to
        except Exception as error:
            try:
                self.store.count("retry_job_runs_total", "failure")
                self.store.count("retry_job_errors_total", type(error).__name__)
            except StoreError as unreachable:
                log.error("%s", unreachable)
            raise
        finally:
            with suppress(StoreError):
                self.store.release_role(ROLE, self.holder)
        return run

    def _report_failure(self, what: str, error: Exception, run: RetryJobRun) -> float:
        """Report something that cannot be requeued; return its next check."""
        problem = redact(f"{what}: {type(error).__name__}: {error}")
        log.error("%s; the next check is in %g s", problem, self.rules.interval)
        run.problems.append(problem)
        self.store.count("retry_job_errors_total", type(error).__name__)
        return self.store.now() + self.rules.interval

    # -- failed batches

    def _retry_batch(self, id: str, run: RetryJobRun) -> None:
        """Requeue the items of a batch, `at_once` in a transaction; the last transaction sets the next retry.

        Until then the batch stays due, so that after a crash the next retry job requeues the rest.
        """
        try:
            batch, down = self.store.failed_batch(id), self._back.down()
            service = self._services.get(batch.service) if batch is not None else None
            if batch is None or service is None or not down.isdisjoint(service.needs):
                return
            while (retried := self._retry_slice(batch, down)) is None:
                pass
            run.batches += retried
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            at = self._report_failure(f"failed batch {id} cannot be retried", error, run)
            self.store.reschedule_batch(id, at)

    def _retry_slice(self, batch: FailedBatch, down: set[str]) -> bool | None:
        """Requeue a slice; return whether the batch was retried, or None if there is more of it."""
        store, most = self.store, self._back.at_once
        items = store.idle_items(batch.id, limit=most + 1)
        states = [state for state in store.states_of(items[:most]) if state.row is None]
        now = store.now()
        expired = [state for state in states if state.expires is not None and state.expires <= now]
        plan = self._back.plan([state for state in states if state not in expired], down)
        wait, _ = self.rules.ladder.failed_batch.backoff.bounds(batch.retry_count + 2)

        def put_back() -> bool | None:
            if batch.id not in store.due_batches():
                return False  # another retry job was faster
            if not items:
                # All its items are on the ledger.
                store.reschedule_batch(batch.id, store.now() + BATCH_RECHECK_SECONDS)
                return False
            if store.states_of([(state.collection, state.id) for state in states]) != states:
                return None  # they have changed meanwhile: read them again
            store.mark_expired([(state.collection, state.id) for state in expired])
            self._back.put_back(plan, priority=BACKGROUND)
            # If the events begin no round, the same items come again: do not loop.
            left = store.idle_items(batch.id, limit=1) if len(items) > most else []
            if left and left[0] != items[0]:
                return None
            store.claim_batch(batch.id, retry_count=batch.retry_count, until=store.now() + wait)
            store.count("failed_batches_retried_total", batch.service)
            return True

        return store.atomically(put_back)

    # -- documents

    def _retry_documents(self, run: RetryJobRun) -> None:
        seen: set[DocumentKey] = set()
        own = self._back.collections(self._back.down())
        while keys := [key for key in self.store.due_for_check(limit=PAGE, collections=own) if key not in seen]:
            for start in range(0, len(keys), self._back.at_once):
                if self.stopped():
                    return
                page = keys[start : start + self._back.at_once]
                seen.update(page)
                self.store.acquire_role(ROLE, self.holder, ROLE_SECONDS)
                self._process(page, run)

    def _process(self, keys: Sequence[DocumentKey], run: RetryJobRun) -> None:
        """Decide on documents and apply it; a slice that fails is halved until the bad document is alone."""
        try:
            done = self._decide_and_apply(keys)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            if len(keys) > 1:
                middle = len(keys) // 2
                self._process(keys[:middle], run)
                self._process(keys[middle:], run)
            elif not isinstance(error, _DocumentsChanged):
                at = self._report_failure(f"{keys[0][0]}/{keys[0][1]} cannot be put back", error, run)
                self.store.defer_checks([(keys[0], at)])
            return
        run.add(done)

    def _decide_and_apply(self, keys: Sequence[DocumentKey]) -> RetryJobRun:
        """Decide, then apply the decisions in a transaction in which the documents are unchanged."""
        for _ in range(MAX_CONFLICT_RETRIES):
            states = self.store.states_of(keys)
            now, down = self.store.now(), self._back.down()
            common = CommonFailures(self.store).include
            decided: _Decided = []
            for state in states:
                held_up, live = self._back.held_up(state, down), state.row is not None
                decision = decide(state, self.rules, now, live=live, down=held_up, fails_with_others=common)
                decided.append((state, decision))
            plan = self._back.plan([state for state, how in decided if how.action is RetryAction.DUE], down)
            run = self.store.atomically(partial(self._apply, decided, plan, now))
            if run is not None:
                return run
        raise _DocumentsChanged(f"{len(keys)} documents are being changed by others")

    def _apply(self, decided: _Decided, plan: RequeuePlan, now: float) -> RetryJobRun | None:
        """Apply decisions; return None if a document has changed since they were made."""
        states = [state for state, _ in decided]
        if self.store.states_of([(state.collection, state.id) for state in states]) != states:
            return None
        run = RetryJobRun(requeued=self._back.put_back(plan), held_up=len(plan.left))
        checks: list[tuple[DocumentKey, float]] = []
        exhausted: list[DocumentKey] = []
        expired: list[DocumentKey] = []
        # Documents that cannot be requeued get the same next check, not one each: `onward ingest` ends when
        # nothing is due.
        later = self._held_up_until = math.floor(now / self.rules.interval + 1) * self.rules.interval
        for state, decision in decided:
            name, key = f"{state.collection}/{state.id}", (state.collection, state.id)
            for problem in decision.problems:
                run.problems.append(f"{name}: {problem}")
                log.warning("%s: %s", name, problem)
                self.store.count("retry_job_errors_total", "odd_document")
            run.held_up += decision.action is RetryAction.NOT_NOW
            run.later += decision.action is RetryAction.LATER
            # Requeued documents too: the event may end without a round.
            checks.append((key, decision.at if decision.action is RetryAction.LATER else later))
            if decision.action is RetryAction.EXHAUSTED:
                is_late = decision.reason is RetryReason.EXPIRED
                (expired if is_late else exhausted).append(key)
                counts = run.expired if is_late else run.exhausted
                counts[state.collection] = counts.get(state.collection, 0) + 1
                error = describe_error(state.last_error)[:500] or "none"
                status = Status.FAILED_MAX_RETRIES
                if is_late:  # as `mark_expired` does
                    status = Status.FAILED if state.last_error else Status.DISCARDED
                fields = {"documents": [name], "round": state.round, "status": status}
                text = "%s is given up and marked %s: %s; last error: %s"
                log.error(text, name, status, decision.why, error, extra={"onward": fields})
        if expired:
            self.store.mark_expired(expired)
        if exhausted:
            self.store.mark_out_of_rounds(exhausted)
        self.store.defer_checks(checks)
        for collection, count in run.requeued.items():
            self.store.count("retry_job_documents_requeued_total", collection, count)
        for collection, count in run.exhausted.items():
            self.store.count("retry_job_documents_max_retries_exceeded_total", collection, count)
        return run

    # -- full runs

    def _clear_dangling_rows(self, run: RetryJobRun) -> None:
        """Clear references to ledger rows that no longer exist: their documents would wait for ever."""
        after = int(self.store.totals().get("retry_job_checked_up_to", {}).get("", 0))
        after, cleared = self.store.clear_dangling_rows(after=after, limit=MAX_DANGLING_CHECKS)
        self.store.set_gauge("retry_job_checked_up_to", "", after)
        for collection, id in cleared:
            problem = f"{collection}/{id} waited for a ledger row that is gone"
            log.warning("%s; it is retried when it is due", problem)
            run.problems.append(problem)

    def _set_gauges(self, took: float) -> None:
        rules, now = self.rules, self.store.now()
        stuck = rules.stuck(self.store, now)
        waits = {
            (collection, rounds): rules.backoff(collection, rounds)
            for collection in self._back.collections(self._back.down())
            for rounds in range(1, rules.max_rounds(collection))
        }
        documents = self.store.document_counts()
        # Also collections that had stuck documents before, to set them to 0.
        known = self.store.totals().get("retry_job_stuck_documents", {})

        def write() -> None:
            for collection in sorted(documents.keys() | stuck.keys() | known.keys()):
                failed = documents.get(collection, {}).get("failed_max_retries", 0)
                self.store.set_gauge("retry_job_stuck_documents", collection, stuck.get(collection, 0))
                self.store.set_gauge("retry_job_failed_documents", collection, failed)
            for collection, count in self.store.waiting_for_backoff(waits).items():
                self.store.count("retry_job_documents_skipped_backoff_total", collection, count)
            self.store.count("retry_job_runs_total", "success")
            self.store.observe_total("retry_job_duration_seconds", took)
            self.store.set_gauge("retry_job_last_success_timestamp_seconds", "", now)

        self.store.atomically(write)
        self._full_at = now


def describe_run(run: RetryJobRun) -> Iterable[str]:
    if not run.led:
        yield "another retry job is at work"
        return
    for collection, count in sorted(run.requeued.items()):
        yield f"{collection}: {count} put back"
    for collection, count in sorted(run.exhausted.items()):
        yield f"{collection}: {count} given up, after all their rounds"
    for collection, count in sorted(run.expired.items()):
        yield f"{collection}: {count} given up, because of their deadline"
    if run.batches:
        yield f"failed batches: {run.batches} retried"
    if run.held_up:
        yield f"held up by a dependency, or not complete: {run.held_up}"
    if run.later:
        yield f"not due yet: {run.later}"
    for problem in run.problems:
        yield f"odd: {problem}"
