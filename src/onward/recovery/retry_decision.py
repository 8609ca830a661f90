"""The retry job's decision on an unfinished document. It is pure; the first matching rule counts."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from onward.model.documents import FINAL, DocumentState, Status
from onward.model.ledger import Subscription
from onward.recovery.common_failures import FAILING_TOGETHER_SECONDS, failing_since
from onward.retry import Ladder
from onward.retry.iso_time import read_time
from onward.retry.policy import OTHER_ROUNDS
from onward.retry.round_rules import RoundRules
from onward.settings import Settings

if TYPE_CHECKING:
    from onward.ledger.store import Store

# Onward never writes `processing`, but reads it in documents that other programs write.
UNFINISHED = frozenset({Status.PENDING, "processing"})
OUTAGE_RECHECK_SECONDS = 120.0
MAX_CLOCK_SKEW_SECONDS = 86_400.0  # a time further in the future than this counts as missing
_NONE_DECLARED = RoundRules()


class RetryAction(StrEnum):
    DUE = "due"
    LATER = "later"
    NOT_NOW = "not now"  # something else has the document, or will set its next time
    EXHAUSTED = "exhausted"  # it has had all its rounds, or its deadline passes before the next one
    ODD = "odd"  # its status is unknown


@dataclass(frozen=True, slots=True)
class RetryJobRules:
    """The settings of the retry job; times in seconds."""

    ladder: Ladder = field(default_factory=Ladder)
    interval: float = 900.0
    usual_stuck_after: float = 86_400.0
    own: Mapping[str, RoundRules] = field(default_factory=dict, hash=False)  # by collection, where it declares any

    @classmethod
    def of(cls, settings: Settings, subscriptions: Iterable[Subscription]) -> RetryJobRules:
        """Return the rules of these settings, and what the collections of these services declare.

        A maximum of rounds that the settings name for a collection replaces the one that it declares.
        """
        ladder, own = settings.ladder(), dict[str, RoundRules]()
        for subscription in subscriptions:
            if subscription.finishes and (rules := RoundRules.from_json(subscription.round_rules)):
                name = subscription.finishes
                if f"retry_job_max_attempts_{name}" in settings.model_fields_set:
                    rules = replace(rules, max_rounds=ladder.max_rounds(name))
                own[name] = rules
        stuck_after = settings.retry_job_stuck_threshold_hours * 3600.0
        return cls(ladder, settings.retry_job_interval_seconds, stuck_after, own)

    def max_rounds(self, collection: str) -> int:
        """Return the maximum number of rounds for a document of this collection."""
        declared = self._declared(collection).max_rounds
        return self.ladder.max_rounds(collection) if declared is None else declared

    def backoff(self, collection: str, rounds: int) -> float:
        """Return the wait after this many rounds of a document of this collection."""
        backoff = self._declared(collection).backoff or self.ladder.retry_job.backoff
        return backoff.bounds(rounds)[0] if rounds >= 1 else 0.0

    def stuck_after(self, collection: str) -> float:
        """Return the seconds without any report after which a round of this collection counts as lost."""
        declared = self._declared(collection).stuck_after
        return self.usual_stuck_after if declared is None else declared

    def _declared(self, collection: str) -> RoundRules:
        return self.own.get(collection, _NONE_DECLARED)

    def stuck(self, store: Store, now: float | None = None) -> dict[str, int]:
        """Count by collection the unfinished documents without an event that need help.

        Their round counts as lost at `now`, or they have had all their rounds.
        """
        now = store.now() if now is None else now
        return store.stuck(
            before=now - self.usual_stuck_after,
            own_before={name: now - self.stuck_after(name) for name in self.own},
            max_rounds={name: self.max_rounds(name) for name in (*self.ladder.rounds, *self.own)},
            others=OTHER_ROUNDS,
        )


class RetryReason(StrEnum):
    """Why the retry job decides as it does; the value is the sentence that `RetryDecision.why` completes."""

    ON_LEDGER = "an event for it is on the ledger"
    DEPENDENCY_DOWN = "{detail} is down"
    OPERATOR_NOW = "an operator wants it tried"
    OPERATOR_TIME = "an operator has set the time"
    IN_BATCH = "it is retried with its failed batch"
    FINAL = "it is {detail}"
    UNKNOWN_STATUS = "its status is unknown"
    ROUNDS_FAILED = "it has had {rounds} of {max_rounds} rounds, and the last one failed"
    ROUNDS_SILENT = "it has had {rounds} of {max_rounds} rounds, and the last one reported nothing"
    ALL_FAIL = "round {rounds} of {max_rounds} failed, but nothing else of its service has succeeded meanwhile"
    LAST_ROUND_OPEN = "round {rounds} of {max_rounds} has not reported anything yet"
    ROUND_FAILED = "round {rounds} of {max_rounds} failed"
    ROUND_SILENT = "round {rounds} of {max_rounds} reported nothing"
    RESET = "its content was replaced, or its rounds were reset"
    NEVER_STARTED = "it was never started"
    EXPIRED = "its deadline passes before the next round"


@dataclass(frozen=True, slots=True)
class RetryDecision:
    action: RetryAction
    at: float
    reason: RetryReason
    problems: tuple[str, ...] = ()  # fields with values that make no sense, and how they were read
    rounds: int = 0
    max_rounds: int = 0
    detail: str = ""  # the dependency that is down, or the final status
    until: float | None = None  # if all fail: it is given up when a round fails after this time

    @property
    def why(self) -> str:
        return self.reason.format(rounds=self.rounds, max_rounds=self.max_rounds, detail=self.detail)


def decide(
    state: DocumentState,
    rules: RetryJobRules,
    now: float,
    *,
    live: bool = False,
    down: str = "",
    fails_with_others: Callable[[DocumentState], bool] = lambda _: False,
) -> RetryDecision:
    """Decide by the first matching rule.

    `live`: it has a ledger row; `down`: the dependency it needs is down; `fails_with_others` is asked before it is
    given up: what fails like everything else of its service may be an outage that nobody has recognised. That is
    supposed until `FAILING_TOGETHER_SECONDS` lie between its failures: after a stop, another round is begun first.
    """
    if live:
        return RetryDecision(RetryAction.NOT_NOW, now, RetryReason.ON_LEDGER)
    if down:
        at = now + OUTAGE_RECHECK_SECONDS
        return RetryDecision(RetryAction.NOT_NOW, at, RetryReason.DEPENDENCY_DOWN, detail=down)
    problems: list[str] = []
    if state.retry_at is not None:
        # Before the failed batch: the operator's time has precedence.
        wanted = _time(state.retry_at, "retryAt", now, problems, bounded=False)
        if wanted is None or wanted <= now:
            return RetryDecision(RetryAction.DUE, now, RetryReason.OPERATOR_NOW, tuple(problems))
        return RetryDecision(RetryAction.LATER, wanted, RetryReason.OPERATOR_TIME, tuple(problems))
    if state.failed_batch is not None:
        return RetryDecision(RetryAction.NOT_NOW, now, RetryReason.IN_BATCH)
    if state.status in FINAL:
        return RetryDecision(RetryAction.NOT_NOW, now, RetryReason.FINAL, detail=str(state.status))
    if state.status not in UNFINISHED:
        odd = (f"its status is {state.status!r:.80}, which means nothing here",)
        return RetryDecision(RetryAction.ODD, now + rules.interval, RetryReason.UNKNOWN_STATUS, odd)
    decision = _decide_by_last_round(state, rules, now, problems, fails_with_others)
    if state.expires is not None and decision.action is not RetryAction.EXHAUSTED and decision.at >= state.expires:
        return replace(decision, action=RetryAction.EXHAUSTED, at=now, reason=RetryReason.EXPIRED)
    return decision


def _decide_by_last_round(
    state: DocumentState,
    rules: RetryJobRules,
    now: float,
    problems: list[str],
    fails_with_others: Callable[[DocumentState], bool],
) -> RetryDecision:
    rounds = _count(state.attempt_count, problems)
    last = _time(state.last_attempt_time, "lastAttemptTime", now, problems)
    created = _time(state.created_at, "createdAt", now, problems)
    most, error = rules.max_rounds(state.collection), state.last_error
    backoff, stuck_after = rules.backoff(state.collection, rounds), rules.stuck_after(state.collection)
    # The last round is known to have failed; an error without a round counts for the last one.
    failed = bool(error) and (not isinstance(error, dict) or error.get("round", state.round) == state.round)

    def due(since: float | None, wait: float, reason: RetryReason) -> RetryDecision:
        at = -math.inf if since is None else since + wait  # no time counts as long ago
        action, at = (RetryAction.DUE, now) if at <= now else (RetryAction.LATER, at)
        return RetryDecision(action, at, reason, tuple(problems), rounds, most)

    if rounds >= most:
        since = failing_since(state, backoff) if failed else None
        until = None if since is None else since + FAILING_TOGETHER_SECONDS
        if until is not None and (last is None or last < until) and fails_with_others(state):
            return replace(due(last, backoff, RetryReason.ALL_FAIL), until=until)
        if failed or last is None or last + stuck_after <= now:
            reason = RetryReason.ROUNDS_FAILED if failed else RetryReason.ROUNDS_SILENT
            return RetryDecision(RetryAction.EXHAUSTED, now, reason, tuple(problems), rounds, most)
        return due(last, stuck_after, RetryReason.LAST_ROUND_OPEN)
    if failed:
        return due(last, backoff, RetryReason.ROUND_FAILED)
    if rounds or last is not None:
        return due(last, max(stuck_after, backoff), RetryReason.ROUND_SILENT)
    if state.round:
        return due(None, 0.0, RetryReason.RESET)
    return due(created, rules.interval, RetryReason.NEVER_STARTED)


def _count(value: Any, problems: list[str]) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        problems.append(f"attemptCount is {value!r:.80}; it counts as 0")
        return 0
    return int(value)


def _time(value: Any, name: str, now: float, problems: list[str], *, bounded: bool = True) -> float | None:
    """Return a time as Unix seconds; text is ISO 8601, in UTC if it names no zone."""
    if value is None:
        return None
    at = read_time(value)
    if at is None:
        problems.append(f"{name} is {value!r:.80}, which is no time; it counts as missing")
    elif bounded and at > now + MAX_CLOCK_SKEW_SECONDS:
        problems.append(f"{name} is {value!r:.80}, which is in the future; it counts as missing")
        return None
    return at
