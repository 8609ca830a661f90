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
from onward.model.documents import DocumentKey, DocumentState
from onward.recovery.failed_batches import FailedBatchRetries
from onward.recovery.requeue_documents import DocumentRequeue, RequeuePlan
from onward.recovery.retry_decision import RetryAction, RetryDecision, RetryJobRules, decide
from onward.retry import OnwardError, redact
from onward.runtime.service import Registry

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")

ROLE = "retry job"
PAGE = 10_000
"""Due documents that are listed at once."""
MAX_DANGLING_CHECKS = 20_000
"""Documents that each full run checks for ledger rows that no longer exist."""
ROLE_SECONDS = 60.0
MAX_CONFLICT_RETRIES = 3
"""How often the decisions on a slice are made again because documents changed, before it is halved."""


_Decisions: TypeAlias = Sequence[tuple[DocumentState, RetryDecision]]


class _DocumentsChanged(OnwardError):
    """Documents changed between the decision and the commit."""


@dataclass(slots=True)
class RetryJobRun:
    """The result of one run of the retry job."""

    requeued: dict[str, int] = field(default_factory=dict)
    exhausted: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    """Failed batches that were retried."""
    later: int = 0
    held_up: int = 0
    """Documents that are due, but wait for a dependency, or are not complete."""
    problems: list[str] = field(default_factory=list)
    led: bool = True
    """False if another retry job is running; then nothing was done."""

    @property
    def touched(self) -> int:
        return sum(self.requeued.values()) + sum(self.exhausted.values()) + self.batches


class RetryJob:
    """Decides on each unfinished document that is due for a check, and requeues it or gives it up."""

    def __init__(self, store: Store, registry: Registry, rules: RetryJobRules, *, holder: str) -> None:
        self.store = store
        self.rules = rules
        self.holder = holder
        self.stopped: Callable[[], bool] = lambda: False
        """Called between two transactions; True leaves the rest to another run."""
        self._back = DocumentRequeue(store, registry)
        self._batches = FailedBatchRetries(store, registry, self._back)
        self._full_at: float | None = None
        self._held_up_until = 0.0
        """The next check of documents that could not be requeued."""

    def next_due(self) -> float | None:
        """Return when something is due; what waits for a dependency that is down does not count."""
        own = self._back.collections(self._back.down())
        times = (self._batches.next_due(), self.store.next_check(own))
        return min((at for at in times if at is not None), default=None)

    def next_chance(self) -> float | None:
        """Return when something can be requeued; what could not be requeued in the last run does not count."""
        due = self.next_due()
        return None if due == self._held_up_until else due

    def is_due(self) -> bool:
        if self._is_full():
            return True
        return (due := self.next_due()) is not None and due <= self.store.now()

    def _is_full(self) -> bool:
        """Return whether an interval has passed since the last full run of any process."""
        now = self.store.now()
        if self._full_at is None or not 0 <= now - self._full_at < self.rules.interval:
            self._full_at = self.store.totals().get("retry_job_last_success_timestamp_seconds", {}).get("")
        return self._full_at is None or not 0 <= now - self._full_at < self.rules.interval

    def run(self, *, full: bool | None = None) -> RetryJobRun:
        """Do the due checks. A full run, once in an interval, also checks for dangling rows and sets gauges."""
        began, run = time.perf_counter(), RetryJobRun()
        full = self._is_full() if full is None else full
        if not self.store.acquire_role(ROLE, self.holder, ROLE_SECONDS):
            run.led = False
            return run
        try:
            if full:
                self._clear_dangling_rows(run)
            for id in self.store.due_batches():
                if not self.stopped():
                    retried, problem = self._batches.retry(id, self.rules)
                    run.batches += retried
                    run.problems += [problem] if problem else []
            self._retry_documents(run)
            if full:
                self._set_gauges(time.perf_counter() - began)
        except StoreError:
            raise  # the store cannot be written to
        except Exception as error:
            self._count_failed_run(error)
            raise
        finally:
            with suppress(StoreError):
                self.store.release_role(ROLE, self.holder)
        return run

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
                self._report_failure(keys[0], error, run)
            return
        _add(run, done)

    def _report_failure(self, key: DocumentKey, error: Exception, run: RetryJobRun) -> None:
        problem = redact(f"{key[0]}/{key[1]} cannot be put back: {type(error).__name__}: {error}")
        log.error("%s; the next check is in %g s", problem, self.rules.interval)
        run.problems.append(problem)
        self.store.count("retry_job_errors_total", type(error).__name__)
        self.store.defer_checks([(key, self.store.now() + self.rules.interval)])

    def _decide_and_apply(self, keys: Sequence[DocumentKey]) -> RetryJobRun:
        """Decide, then apply the decisions in a transaction in which the documents are unchanged."""
        for _ in range(MAX_CONFLICT_RETRIES):
            states = self.store.states_of(keys)
            now, down = self.store.now(), self._back.down()
            decided = [(state, self._decide(state, now, down)) for state in states]
            due = [state for state, decision in decided if decision.action is RetryAction.DUE]
            plan = self._back.plan(due, down)
            run = self.store.atomically(partial(self._apply, keys, decided, plan, now))
            if run is not None:
                return run
        raise _DocumentsChanged(f"{len(keys)} documents are being changed by others")

    def _decide(self, state: DocumentState, now: float, down: set[str]) -> RetryDecision:
        held_up = self._back.held_up(state, down)
        return decide(state, self.rules, now, live=state.row is not None, down=held_up)

    def _apply(
        self, keys: Sequence[DocumentKey], decided: _Decisions, plan: RequeuePlan, now: float
    ) -> RetryJobRun | None:
        """Apply decisions; return None if a document has changed since they were made."""
        if self.store.states_of(keys) != [state for state, _ in decided]:
            return None
        run = RetryJobRun(requeued=self._back.put_back(plan), held_up=len(plan.left))
        checks: list[tuple[DocumentKey, float]] = []
        # Documents that cannot be requeued get the same next check, not one each: `onward ingest` ends when
        # nothing is due.
        later = math.floor(now / self.rules.interval + 1) * self.rules.interval
        for state, decision in decided:
            run.problems += self._report(state, decision)
            run.held_up += decision.action is RetryAction.NOT_NOW
            run.later += decision.action is RetryAction.LATER
            # Requeued documents too: the event may end without a round.
            at = decision.at if decision.action is RetryAction.LATER else later
            self._held_up_until = later
            checks.append(((state.collection, state.id), at))
        self._give_up([pair for pair in decided if pair[1].action is RetryAction.EXHAUSTED], run)
        self.store.defer_checks(checks)
        for collection, count in run.requeued.items():
            self.store.count("retry_job_documents_requeued_total", collection, count)
        for collection, count in run.exhausted.items():
            self.store.count("retry_job_documents_max_retries_exceeded_total", collection, count)
        return run

    def _give_up(self, exhausted: _Decisions, run: RetryJobRun) -> None:
        if not exhausted:
            return
        self.store.give_up([(state.collection, state.id) for state, _ in exhausted])
        for state, decision in exhausted:
            run.exhausted[state.collection] = run.exhausted.get(state.collection, 0) + 1
            name, error = f"{state.collection}/{state.id}", _last_error(state)
            log.error("%s is given up: %s; last error: %s", name, decision.why, error)

    def _report(self, state: DocumentState, decision: RetryDecision) -> list[str]:
        problems = [f"{state.collection}/{state.id}: {problem}" for problem in decision.problems]
        for problem in problems:
            log.warning("%s", problem)
            self.store.count("retry_job_errors_total", "odd_document")
        return problems

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
        ladder, now = self.rules.ladder, self.store.now()
        stuck = self.store.stuck(
            before=now - self.rules.stuck_after, max_rounds=ladder.rounds, others=ladder.max_rounds("")
        )
        documents = self.store.document_counts()
        # Also collections that had stuck documents before, to set them to 0.
        known = self.store.totals().get("retry_job_stuck_documents", {})

        def write() -> None:
            for collection in sorted(documents.keys() | stuck.keys() | known.keys()):
                failed = documents.get(collection, {}).get("failed_max_retries", 0)
                self.store.set_gauge("retry_job_stuck_documents", collection, stuck.get(collection, 0))
                self.store.set_gauge("retry_job_failed_documents", collection, failed)
            for collection, count in self.store.waiting_for_backoff().items():
                self.store.count("retry_job_documents_skipped_backoff_total", collection, count)
            self.store.count("retry_job_runs_total", "success")
            self.store.observe_total("retry_job_duration_seconds", took)
            self.store.set_gauge("retry_job_last_success_timestamp_seconds", "", now)

        self.store.atomically(write)
        self._full_at = now

    def _count_failed_run(self, error: Exception) -> None:
        try:
            self.store.count("retry_job_runs_total", "failure")
            self.store.count("retry_job_errors_total", type(error).__name__)
        except StoreError as unreachable:
            log.error("%s", unreachable)


def _add(run: RetryJobRun, other: RetryJobRun) -> None:
    for mine, others in ((run.requeued, other.requeued), (run.exhausted, other.exhausted)):
        for collection, count in others.items():
            mine[collection] = mine.get(collection, 0) + count
    run.later += other.later
    run.held_up += other.held_up
    run.problems += other.problems


def _last_error(state: DocumentState) -> str:
    error = state.last_error
    if not isinstance(error, dict):
        return "none"
    return redact(f"{error.get('error_type', 'Error')}: {error.get('message', '')}")[:500]


def describe_run(run: RetryJobRun) -> Iterable[str]:
    """Yield a line for each thing that a run did."""
    if not run.led:
        yield "another retry job is at work"
        return
    for collection, count in sorted(run.requeued.items()):
        yield f"{collection}: {count} put back"
    for collection, count in sorted(run.exhausted.items()):
        yield f"{collection}: {count} given up, after all their rounds"
    if run.batches:
        yield f"failed batches: {run.batches} retried"
    if run.held_up:
        yield f"held up by a dependency, or not complete: {run.held_up}"
    if run.later:
        yield f"not due yet: {run.later}"
    for problem in run.problems:
        yield f"odd: {problem}"
