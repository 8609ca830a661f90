"""What the retry job does with an unfinished document: one pure decision, the first match counts."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from onward.model.documents import FINAL, DocumentState, Status
from onward.retry import Ladder
from onward.settings import Settings

UNDERSTOOD = frozenset({Status.PENDING, "processing"})
"""Unfinished, whoever wrote it; no service of ours writes `processing`."""
FUTURE = 86_400.0
"""A time further ahead than clocks ever differ is no time at all."""


class Next(StrEnum):
    """What is to be done with a document."""

    DUE = "due"
    LATER = "later"
    NOT_NOW = "not now"
    """Something else has it, and will say when it is done."""
    EXHAUSTED = "exhausted"
    """It has had all its rounds."""
    ODD = "odd"
    """Nobody can tell what it wants."""


@dataclass(frozen=True, slots=True)
class Rules:
    """The numbers of the retry job."""

    ladder: Ladder = field(default_factory=Ladder)
    interval: float = 900.0
    stuck_after: float = 86_400.0

    @classmethod
    def of(cls, settings: Settings) -> Rules:
        return cls(
            settings.ladder(),
            settings.retry_job_interval_seconds,
            settings.retry_job_stuck_threshold_hours * 3600.0,
        )

    def backoff(self, rounds: int) -> float:
        """How long to wait after so many rounds."""
        if rounds < 1:
            return 0.0
        longest, _ = self.ladder.retry_job.backoff.bounds(rounds)
        return longest


@dataclass(frozen=True, slots=True)
class Decision:
    """What becomes of a document, when, and why, in words that finish the sentence "it is …"."""

    next: Next
    at: float
    why: str
    problems: tuple[str, ...] = ()
    """What is odd about its fields, and was understood as well as could be."""


def decide(state: DocumentState, rules: Rules, now: float, *, live: bool = False, down: str = "") -> Decision:
    """Decide by the first match; `live`: it has a ledger row, `down`: a dependency it needs is."""
    problems: list[str] = []
    if live:
        return Decision(Next.NOT_NOW, now, "an event for it is on the ledger")
    if down:
        return Decision(Next.NOT_NOW, now + 120.0, f"{down} is down")
    if state.retry_at is not None:
        # Before the failed batch: what a person wants comes first.
        at = _time(state.retry_at, "retryAt", now, problems, bounded=False)
        if at is None or at <= now:
            return Decision(Next.DUE, now, "an operator wants it tried", tuple(problems))
        return Decision(Next.LATER, at, "an operator has set the time", tuple(problems))
    if state.failed_batch is not None:
        return Decision(Next.NOT_NOW, now, "it is retried with its failed batch")
    if state.status in FINAL:
        return Decision(Next.NOT_NOW, now, f"it is {state.status}")
    if state.status not in UNDERSTOOD:
        odd = (f"its status is {state.status!r:.80}, which means nothing here",)
        return Decision(Next.ODD, now + rules.interval, "its status is unknown", odd)
    return _round(state, rules, now, problems)


def _round(state: DocumentState, rules: Rules, now: float, problems: list[str]) -> Decision:
    """Decide about a document that nothing else has: what became of its last round?"""
    rounds = _count(state.attempt_count, problems)
    last = _time(state.last_attempt_time, "lastAttemptTime", now, problems)
    created = _time(state.created_at, "createdAt", now, problems)
    most = rules.ladder.max_rounds(state.collection)
    failed = _has_failed(state)
    odd = tuple(problems)
    if rounds >= most:
        silent = -math.inf if last is None else last + rules.stuck_after
        if failed or silent <= now:
            how = "the last one failed" if failed else "nothing was heard of the last one"
            return Decision(Next.EXHAUSTED, now, f"it has had {rounds} of {most} rounds, and {how}", odd)
        return Decision(Next.LATER, silent, f"nothing has been heard of round {rounds} of {most} yet", odd)
    if failed:
        wait = rules.backoff(rounds)
        return _at(-math.inf if last is None else last + wait, now, f"round {rounds} of {most} failed", odd)
    if rounds or last is not None:
        wait = max(rules.stuck_after, rules.backoff(rounds))
        at = -math.inf if last is None else last + wait
        return _at(at, now, f"nothing was heard of round {rounds} of {most}", odd)
    return _at(-math.inf if created is None else created + rules.interval, now, "nothing was ever begun", odd)


def _at(at: float, now: float, why: str, problems: tuple[str, ...]) -> Decision:
    if at <= now:
        return Decision(Next.DUE, now, why, problems)
    return Decision(Next.LATER, at, why, problems)


def _has_failed(state: DocumentState) -> bool:
    """Whether its last round is known to have failed; an error of others may not say which round it was."""
    return bool(state.last_error) and (
        not isinstance(state.last_error, dict) or state.last_error.get("round", state.round) == state.round
    )


def _count(value: Any, problems: list[str]) -> int:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        problems.append(f"attemptCount is {value!r:.80}; it counts as 0")
        return 0
    return int(value)


def _time(value: Any, name: str, now: float, problems: list[str], *, bounded: bool = True) -> float | None:
    """A time as seconds; text is read as ISO 8601, in UTC if it does not say; nonsense is no time."""
    if value is None:
        return None
    at: float | None = None
    if isinstance(value, str):
        try:
            read = datetime.fromisoformat(value)
            at = (read if read.tzinfo else read.replace(tzinfo=UTC)).timestamp()
        except (ValueError, OverflowError):
            at = None
    elif isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value):
        at = float(value)
    if at is None:
        problems.append(f"{name} is {value!r:.80}, which is no time; it counts as missing")
    elif bounded and at > now + FUTURE:
        problems.append(f"{name} is {value!r:.80}, which is in the future; it counts as missing")
        return None
    return at
