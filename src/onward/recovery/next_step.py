"""The next step of a document, and the reason, as data; `ops/text` makes the sentence."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from functools import cache, cached_property
from typing import TYPE_CHECKING

from onward.model.breaker import Breaker
from onward.model.documents import FINAL, DocumentState, Status
from onward.model.ledger import FailedBatch, RowState
from onward.model.ledger_views import LedgerRow
from onward.recovery.common_failures import CommonFailures
from onward.recovery.retry_decision import RetryAction, RetryDecision, RetryJobRules, decide
from onward.retry.redact import redact
from onward.runtime.process_identity import alive_workers

if TYPE_CHECKING:
    from onward.ledger.store import Store


class NextStepKind(StrEnum):
    WORKING = "working"
    SILENT = "silent"  # the lease of its worker has ended; another worker takes it
    DUE = "due"  # a worker or the retry job takes it at `NextStep.at`
    WAITS_FOR_KEY = "waits_for_key"  # another event with its key is handled first
    NO_WORKER = "no_worker"  # it is due, and no worker runs
    OUTAGE = "outage"
    INCOMPLETE = "incomplete"  # it waits until the documents that belong to it are finished
    SET_ASIDE = "set_aside"
    SCHEDULED = "scheduled"
    NOT_NOW = "not_now"
    EXHAUSTED = "exhausted"  # the retry job is about to give it up
    ODD = "odd"  # its fields make no sense
    PROCESSED = "processed"
    DISCARDED = "discarded"
    GIVEN_UP = "given_up"
    FAILED = "failed"


_ENDED: dict[str, NextStepKind] = {
    Status.PROCESSED: NextStepKind.PROCESSED,
    Status.DISCARDED: NextStepKind.DISCARDED,
    Status.FAILED_MAX_RETRIES: NextStepKind.GIVEN_UP,
}
_NOT_RETRIED = {
    RetryAction.EXHAUSTED: NextStepKind.EXHAUSTED,
    RetryAction.ODD: NextStepKind.ODD,
    RetryAction.NOT_NOW: NextStepKind.NOT_NOW,
}


@dataclass(frozen=True, slots=True)
class Unfinished:
    """The documents that an incomplete document waits for."""

    count: int
    collection: str


@dataclass(frozen=True, slots=True)
class NextStep:
    kind: NextStepKind
    state: DocumentState
    now: float
    at: float | None = None  # when it happens, if that is known
    row: LedgerRow | None = None  # its live event
    worker_alive: bool = True  # the worker of `row` has reported lately
    breaker: Breaker | None = None  # of the dependency that it waits for
    batch: FailedBatch | None = None
    persistent: bool = False  # its failed batch keeps failing and needs a person
    decision: RetryDecision | None = None  # of the retry job, if the document has no live event
    backoff_seconds: float = 0.0
    unfinished: Unfinished | None = None
    start_worker: str = ""  # the command that starts a worker for this store

    @property
    def problems(self) -> tuple[str, ...]:
        """A contradiction in the fields of the document."""
        return self.decision.problems if self.decision else ()


@dataclass
class NextSteps:
    """Finds the next step of documents of a store at one moment; facts that they share are read once."""

    store: Store
    rules: RetryJobRules = field(default_factory=RetryJobRules)
    start_worker: str = "onward worker"

    def __post_init__(self) -> None:
        store = self.store
        self.now = store.now()
        self._breakers = {breaker.dependency: breaker for breaker in store.breakers()}
        self._subscriptions = store.subscriptions()
        self._row = cache(store.ledger_row)
        self._batch = cache(store.failed_batch)

    @cached_property
    def _common(self) -> CommonFailures:
        return CommonFailures(self.store)

    @cached_property
    def _alive(self) -> set[str]:
        return {worker["worker"] for worker in alive_workers(self.store)}

    def of(self, state: DocumentState, *, unfinished: Unfinished | None = None) -> NextStep:
        """Return the next step of a document; `unfinished`: documents that have to be finished before it."""
        step = NextStep(NextStepKind.DUE, state, self.now)
        row = self._row(state.row) if state.row is not None else None
        if row is not None and row.state == RowState.CLAIMED:
            if (row.lease or self.now) <= self.now:
                return replace(step, kind=NextStepKind.SILENT, row=row)
            alive = (row.worker or "") in self._alive
            return replace(step, kind=NextStepKind.WORKING, row=row, worker_alive=alive)
        if row is not None and row.state == RowState.WAITING:
            return self._waiting(step, row)
        if state.status in FINAL and state.retry_at is None:
            return replace(step, kind=_ENDED.get(state.status, NextStepKind.FAILED))
        if state.status not in FINAL:
            if (down := self.down(self._needs(collection=state.collection))) is not None:
                return _outage(step, down)
            if unfinished is not None:
                return replace(step, kind=NextStepKind.INCOMPLETE, unfinished=unfinished)
            batch = self._batch(state.failed_batch) if state.failed_batch is not None else None
            if state.retry_at is None and batch is not None:
                persistent = self.rules.ladder.failed_batch.persistent(batch.retry_count)
                kind = NextStepKind.SET_ASIDE
                return replace(step, kind=kind, at=batch.retry_after, batch=batch, persistent=persistent)
        decision = decide(state, self.rules, self.now, fails_with_others=self._common.include)
        step = replace(step, decision=decision, at=decision.at)
        if (kind := _NOT_RETRIED.get(decision.action, NextStepKind.DUE)) is not NextStepKind.DUE:
            return replace(step, kind=kind, at=decision.at if kind is NextStepKind.EXHAUSTED else None)
        if state.retry_at is not None:
            return replace(step, kind=NextStepKind.SCHEDULED)
        return replace(step, backoff_seconds=self.rules.backoff(state.collection, rounds_of(state)))

    def _waiting(self, step: NextStep, row: LedgerRow) -> NextStep:
        needs = self._needs(service=row.service)
        if (down := self.down(needs)) is not None:
            return _outage(step, down)
        if row.waits_for_key:
            return replace(step, kind=NextStepKind.WAITS_FOR_KEY, at=None, row=row)
        step = replace(step, at=row.due, row=row)
        if row.due > self.now:
            breakers = [breaker for name in needs if (breaker := self._breakers.get(name)) is not None]
            unreached = next((breaker for breaker in breakers if breaker.unreached_since is not None), None)
            if unreached is not None and not row.tries:
                return replace(step, kind=NextStepKind.OUTAGE, breaker=unreached)
        elif not self._alive:
            return replace(step, kind=NextStepKind.NO_WORKER, start_worker=self.start_worker)
        return step

    def down(self, needs: Iterable[str]) -> Breaker | None:
        """Return the breaker of the first of these dependencies that lets nothing through now."""
        for name in needs:
            breaker = self._breakers.get(name)
            if breaker is not None and (breaker.open or (breaker.paused_until or 0.0) > self.now):
                return breaker
        return None

    def _needs(self, *, service: str | None = None, collection: str | None = None) -> list[str]:
        return [
            name
            for subscription in self._subscriptions
            if (subscription.service == service if service is not None else subscription.finishes == collection)
            for name in subscription.needs
        ]


def _outage(step: NextStep, down: Breaker) -> NextStep:
    paused = not down.open and down.paused_until is not None
    at = down.paused_until if paused else None if down.by_hand else down.next_probe
    return replace(step, kind=NextStepKind.OUTAGE, at=at, breaker=down)


def describe_error(error: object) -> str:
    """Return a stored error on one line, as its type and message; another program may have stored anything."""
    if not error:
        return ""
    if isinstance(error, Mapping):
        text = ": ".join(str(error[part]) for part in ("error_type", "message") if error.get(part))
    else:
        text = str(error)
    return " ".join(redact(text).split())


def rounds_of(state: DocumentState) -> int:
    """Return how many rounds a document has had; another program may have stored anything there."""
    count: object = state.attempt_count
    return count if isinstance(count, int) else 0
