"""The retry job: puts unfinished documents and failed batches back when their time has come.

Several at once do no harm: a document that has changed since it was judged is judged again.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial

from onward.model.documents import DocumentState
from onward.ports import Key, Store, StoreError, StoreFull, StoreUnavailable
from onward.recovery.batch_retries import BatchRetries
from onward.recovery.deciding import Decision, Next, Rules, decide
from onward.recovery.putting_back import Plan, PuttingBack
from onward.retry import OnwardError, redact
from onward.runtime.service import Registry

log = logging.getLogger("onward")

ROLE = "retry job"
AT_ONCE = 10_000
CHECKED = 20_000
"""Documents that each full run checks for ledger rows that are gone."""
LEASE = 60.0
CHANGES = 3
"""How often a slice is judged anew because something in it changed, before it is halved."""


class _Changed(OnwardError):
    """Something happened to documents while they were judged."""


@dataclass(slots=True)
class Run:
    """What one run of the retry job did."""

    requeued: dict[str, int] = field(default_factory=dict)
    exhausted: dict[str, int] = field(default_factory=dict)
    batches: int = 0
    """Failed batches that were retried."""
    later: int = 0
    held_up: int = 0
    """Documents whose time has come, but which wait for a dependency, or are not complete."""
    problems: list[str] = field(default_factory=list)
    led: bool = True
    """False: another retry job is at work."""

    @property
    def touched(self) -> int:
        return sum(self.requeued.values()) + sum(self.exhausted.values()) + self.batches


class RetryJob:
    """Judges what is unfinished by the first match of a table, and puts back what is due."""

    def __init__(self, store: Store, registry: Registry, rules: Rules, *, holder: str) -> None:
        self.store = store
        self.rules = rules
        self.holder = holder
        self.stopped: Callable[[], bool] = lambda: False
        """Asked between two transactions; True: leave the rest for another run."""
        self._back = PuttingBack(store, registry)
        self._batches = BatchRetries(store, registry, self._back)
        self._full_at: float | None = None
        self._held_up_until = 0.0
        """When those are looked at again that could not be put back."""

    # -- when

    def next_due(self) -> float | None:
        """When something falls due; what waits for a dependency that is down does not count."""
        own = self._back.collections(self._back.down())
        times = (self._batches.next_due(), self.store.next_look(own))
        return min((one for one in times if one is not None), default=None)

    def next_chance(self) -> float | None:
        """When something may get on; those that could not be put back the last time do not count."""
        due = self.next_due()
        return None if due == self._held_up_until else due

    def is_due(self) -> bool:
        if self._is_full():
            return True
        return (due := self.next_due()) is not None and due <= self.store.now()

    def _is_full(self) -> bool:
        """Whether an interval has passed since anybody looked after gauges and odd ends."""
        now = self.store.now()
        if self._full_at is None or not 0 <= now - self._full_at < self.rules.interval:
            self._full_at = self.store.totals().get("retry_job_last_success_timestamp_seconds", {}).get("")
        return self._full_at is None or not 0 <= now - self._full_at < self.rules.interval

    # -- what

    def run(self, *, full: bool | None = None) -> Run:
        """Do all that is due now; once in an interval (or if `full`), look after gauges and odd ends, too."""
        began, run = time.perf_counter(), Run()
        full = self._is_full() if full is None else full
        if not self.store.lead(ROLE, self.holder, LEASE):
            run.led = False
            return run
        try:
            if full:
                self._loosen(run)
            for id in self.store.due_batches():
                if not self.stopped():
                    retried, problem = self._batches.retry(id, self.rules)
                    run.batches += retried
                    run.problems += [problem] if problem else []
            self._retry_documents(run)
            if full:
                self._keep_gauges(time.perf_counter() - began)
        except StoreError:
            raise  # nothing can be noted where the store does not answer
        except Exception as error:
            self._note_failed_run(error)
            raise
        finally:
            self._resign()
        return run

    def _resign(self) -> None:
        try:
            self.store.resign(ROLE, self.holder)
        except StoreError as error:
            log.debug("%s", error)

    # -- documents

    def _retry_documents(self, run: Run) -> None:
        seen: set[Key] = set()
        own = self._back.collections(self._back.down())
        while keys := [key for key in self.store.to_look_at(limit=AT_ONCE, collections=own) if key not in seen]:
            for start in range(0, len(keys), self._back.at_once):
                if self.stopped():
                    return
                some = keys[start : start + self._back.at_once]
                seen.update(some)
                self.store.lead(ROLE, self.holder, LEASE)
                self._judge_carefully(some, run)

    def _judge_carefully(self, keys: Sequence[Key], run: Run) -> None:
        """One bad document never stops the others: what fails together is halved until the culprit is alone."""
        try:
            judged = self._judge(keys)
        except (StoreUnavailable, StoreFull):
            raise
        except Exception as error:
            if len(keys) > 1:
                middle = len(keys) // 2
                self._judge_carefully(keys[:middle], run)
                self._judge_carefully(keys[middle:], run)
            elif not isinstance(error, _Changed):
                self._report_failure(keys[0], error, run)
            return
        _add(run, judged)

    def _report_failure(self, key: Key, error: Exception, run: Run) -> None:
        problem = redact(f"{key[0]}/{key[1]} cannot be put back: {type(error).__name__}: {error}")
        log.error("%s; it is looked at again in %g s", problem, self.rules.interval)
        run.problems.append(problem)
        self.store.count("retry_job_errors_total", type(error).__name__)
        self.store.look_later([(key, self.store.now() + self.rules.interval)])

    def _judge(self, keys: Sequence[Key]) -> Run:
        """Judge documents, and make that true in a transaction in which they are still the same."""
        for _ in range(CHANGES):
            states = self.store.states_of(keys)
            now, down = self.store.now(), self._back.down()
            decided = [(state, self._decide(state, now, down)) for state in states]
            plan = self._back.plan([state for state, made in decided if made.next is Next.DUE], down)
            run = self.store.atomically(partial(self._apply_unchanged, keys, states, decided, plan, now))
            if run is not None:
                return run
        raise _Changed(f"{len(keys)} documents are being changed by others")

    def _apply_unchanged(
        self,
        keys: Sequence[Key],
        states: Sequence[DocumentState],
        decided: Sequence[tuple[DocumentState, Decision]],
        plan: Plan,
        now: float,
    ) -> Run | None:
        return self._apply(decided, plan, now) if self.store.states_of(keys) == states else None

    def _decide(self, state: DocumentState, now: float, down: set[str]) -> Decision:
        held_up = self._back.held_up(state, down)
        return decide(state, self.rules, now, live=state.row is not None, down=held_up)

    def _apply(self, decided: Sequence[tuple[DocumentState, Decision]], plan: Plan, now: float) -> Run:
        run = Run(requeued=self._back.put_back(plan), held_up=len(plan.left))
        looks: list[tuple[Key, float]] = []
        # What cannot be put back is looked at again together with others of its kind, not each at a time of its
        # own: somebody may be waiting for a moment in which nothing is due.
        later = math.floor(now / self.rules.interval + 1) * self.rules.interval
        for state, decision in decided:
            run.problems += self._report(state, decision)
            run.held_up += decision.next is Next.NOT_NOW
            run.later += decision.next is Next.LATER
            # Also those that were put back: what others do first may not be a round of theirs.
            at = decision.at if decision.next is Next.LATER else later
            self._held_up_until = later
            looks.append(((state.collection, state.id), at))
        self._give_up([one for one in decided if one[1].next is Next.EXHAUSTED], run)
        self.store.look_later(looks)
        for collection, count in run.requeued.items():
            self.store.count("retry_job_documents_requeued_total", collection, count)
        for collection, count in run.exhausted.items():
            self.store.count("retry_job_documents_max_retries_exceeded_total", collection, count)
        return run

    def _give_up(self, exhausted: Sequence[tuple[DocumentState, Decision]], run: Run) -> None:
        if not exhausted:
            return
        self.store.give_up([(state.collection, state.id) for state, _ in exhausted])
        for state, decision in exhausted:
            run.exhausted[state.collection] = run.exhausted.get(state.collection, 0) + 1
            log.error(
                "%s/%s is given up: %s; last error: %s",
                *(state.collection, state.id, decision.why, _error(state)),
            )

    def _report(self, state: DocumentState, decision: Decision) -> list[str]:
        problems = [f"{state.collection}/{state.id}: {one}" for one in decision.problems]
        for problem in problems:
            log.warning("%s", problem)
            self.store.count("retry_job_errors_total", "odd_document")
        return problems

    # -- odds and ends

    def _loosen(self, run: Run) -> None:
        """Documents that wait for a ledger row which is gone would wait for ever."""
        after = int(self.store.totals().get("retry_job_checked_up_to", {}).get("", 0))
        after, loosened = self.store.loosen(after=after, limit=CHECKED)
        self.store.set_gauge("retry_job_checked_up_to", "", after)
        for collection, id in loosened:
            problem = f"{collection}/{id} waited for a ledger row that is gone"
            log.warning("%s; it is tried again in its time", problem)
            run.problems.append(problem)

    def _keep_gauges(self, took: float) -> None:
        ladder, now = self.rules.ladder, self.store.now()
        stuck = self.store.stuck(
            before=now - self.rules.stuck_after, max_rounds=ladder.rounds, others=ladder.max_rounds("")
        )
        documents = self.store.document_counts()
        # With those that have had some, and have none any more.
        known = self.store.totals().get("retry_job_stuck_documents", {})

        def keep() -> None:
            for collection in sorted(documents.keys() | stuck.keys() | known.keys()):
                failed = documents.get(collection, {}).get("failed_max_retries", 0)
                self.store.set_gauge("retry_job_stuck_documents", collection, stuck.get(collection, 0))
                self.store.set_gauge("retry_job_failed_documents", collection, failed)
            for collection, count in self.store.looked_at_later().items():
                self.store.count("retry_job_documents_skipped_backoff_total", collection, count)
            self.store.count("retry_job_runs_total", "success")
            self.store.observe_total("retry_job_duration_seconds", took)
            self.store.set_gauge("retry_job_last_success_timestamp_seconds", "", now)

        self.store.atomically(keep)
        self._full_at = now

    def _note_failed_run(self, error: Exception) -> None:
        try:
            self.store.count("retry_job_runs_total", "failure")
            self.store.count("retry_job_errors_total", type(error).__name__)
        except StoreError as unreachable:
            log.error("%s", unreachable)


def _add(run: Run, other: Run) -> None:
    for mine, others in ((run.requeued, other.requeued), (run.exhausted, other.exhausted)):
        for collection, count in others.items():
            mine[collection] = mine.get(collection, 0) + count
    run.later += other.later
    run.held_up += other.held_up
    run.problems += other.problems


def _error(state: DocumentState) -> str:
    error = state.last_error
    if not isinstance(error, dict):
        return "none"
    return redact(f"{error.get('error_type', 'Error')}: {error.get('message', '')}")[:500]


def described(run: Run) -> Iterable[str]:
    """Say what a run did, a line at a time."""
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
