"""A document's next step, the entries of its history, and dead letters as text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from onward.model.breaker import Breaker
from onward.model.failures import Outcome
from onward.model.ledger import SUSPECT_DEATHS, DeadLetter
from onward.model.ledger_views import LedgerRow
from onward.ops.text.format import (
    SHORT_ID,
    Instant,
    Sentence,
    be,
    counted,
    counted_in,
    made_visible,
    number,
    one_line,
    ordinal,
    shell_command,
    whole_duration,
    worker_process,
)
from onward.recovery.history import FAILED_FOR_GOOD, HistoryEntry, has_expired
from onward.recovery.next_step import NextStep, NextStepKind, describe_error, rounds_of
from onward.recovery.retry_decision import RetryAction, RetryReason
from onward.retry.redact import redact

MAX_ERROR_LENGTH = 600
MAX_SHORT_ERROR = 160
UNTYPEABLE = "its id has characters that nobody can type; choose it with --group or --collection"
# The words that lead to the command, for the kinds that need an operator.
_BEFORE_COMMAND = {
    NextStepKind.DISCARDED: "put it back",
    NextStepKind.GIVEN_UP: "put it back",
    NextStepKind.FAILED: "retry it after a fix",
    NextStepKind.ODD: "start it again",
}
MAX_SHOWN_BYTES = 2_000
_NO_ERROR = "no error is known"
_OUTCOMES: dict[str, str] = {
    Outcome.RETRIED: "to be tried again",
    Outcome.GIVEN_BACK: "waits for its dependency, not charged",
    Outcome.GAVE_UP: "round given up",
    Outcome.GAVE_UP_FOR_GOOD: "given up: no round is left",
    Outcome.SET_ASIDE: "set aside",
    Outcome.EXPIRED: "expired: its deadline passed",
    Outcome.CANCELLED: "discarded: cancelled",
    Outcome.PROCESSED: "processed",
    FAILED_FOR_GOOD: "failed for good",
}
_TONES: dict[str, str] = {
    Outcome.PROCESSED: "good",
    Outcome.RETRIED: "warn",
    Outcome.SET_ASIDE: "warn",
    Outcome.GAVE_UP_FOR_GOOD: "bad",
}


class EntryText(NamedTuple):
    text: str
    tone: str = ""  # `good`, `warn`, `bad` or nothing
    at: float | None = None
    detail: str = ""  # the round and try, the worker and its version
    error: str = ""
    fingerprint: str = ""


def outcome_text(outcome: str) -> str:
    """Return what an outcome led to."""
    return _OUTCOMES.get(outcome, outcome)


def entry_text(entry: HistoryEntry) -> EntryText:
    at = entry.at if isinstance(entry.at, int | float) else None
    if entry.what == "not_kept":
        return EntryText(f"… {number(entry.count)} more are not stored")
    if entry.what == "created":
        return EntryText("created", at=at)
    if entry.what == "event":
        return EntryText(one_line(f"{entry.event_type} settled by {entry.service}"), at=at)
    error = one_line(f"{entry.error_type}: {entry.message}".strip(": "), MAX_ERROR_LENGTH)
    text = outcome_text(entry.outcome) or "failed"
    if entry.by:
        text += f" by {entry.by}"
    if error and not text.startswith("failed"):
        text = f"failed, {text}"
    turn = [f"{name} {count}" for name, count in (("round", entry.round), ("try", entry.attempt)) if count]
    detail = " · ".join(filter(None, (", ".join(turn), worker_process(entry.worker), entry.version)))
    tone = _TONES.get(entry.outcome, "bad" if error else "")
    return EntryText(one_line(text), tone, at, one_line(detail), error, entry.fingerprint)


# -- dead letters


def reason_text(dead_letter: DeadLetter) -> str:
    """Return why an event was given up, and after how many tries."""
    return f"{dead_letter.abandoned_reason}, after {tries_text(dead_letter)} in round {dead_letter.round}"


def tries_text(dead_letter: DeadLetter) -> str:
    return counted(dead_letter.attempt_count, "try")


def last_error_text(dead_letter: DeadLetter, most: int = 200) -> str:
    text = error_text({"error_type": dead_letter.error_type, "message": dead_letter.last_error})
    return one_line(text, most) or _NO_ERROR


def error_text(error: Mapping[str, Any]) -> str:
    text = f"{error.get('error_type', '')}: {error.get('message', '')}"
    return redact(text.strip(": ")) or _NO_ERROR


def raw_text(raw: bytes) -> str:
    """Return at most `MAX_SHOWN_BYTES` of bytes that are no event, safe for a terminal."""
    return redact(made_visible(raw[:MAX_SHOWN_BYTES]).decode())


# -- the next step


def next_step_command(step: NextStep) -> str:
    """Return the command for the operator, or nothing if there is nothing to do."""
    if step.kind in _BEFORE_COMMAND:
        command = "onward retry --reset" if step.kind is NextStepKind.ODD else "onward retry"
        return shell_command(command, f"{step.state.collection}/{step.state.id}")
    match step.kind:
        case NextStepKind.NO_WORKER:
            return step.start_worker
        case NextStepKind.OUTAGE if step.breaker is not None and step.breaker.open and step.breaker.by_hand:
            return "onward breakers"
        case NextStepKind.SET_ASIDE if step.persistent:
            return "onward batches list"
    return ""


def next_step_sentence(step: NextStep, *, for_page: bool = False) -> Sentence:
    """Return what happens next and why.

    A page updates itself and has buttons: `for_page` leaves out spans that change every second and the words
    before a command, and says of a time to come also how far away it is.
    """
    sentence = _sentence(step, for_page=for_page)
    if step.kind in _BEFORE_COMMAND and not for_page:
        return (*sentence, f"; {_BEFORE_COMMAND[step.kind] if next_step_command(step) else UNTYPEABLE}")
    if for_page and step.at is not None and step.at > step.now and Instant(step.at) in sentence:
        place = sentence.index(Instant(step.at)) + 1
        return (*sentence[:place], ", ", Instant(step.at, relative=True), *sentence[place:])
    return sentence


def _sentence(step: NextStep, *, for_page: bool) -> Sentence:
    row, error = step.row, describe_error(step.state.last_error)
    error = error if len(error) <= MAX_SHORT_ERROR else error[: MAX_SHORT_ERROR - 1] + "…"
    match step.kind:
        case NextStepKind.SILENT if row is not None:
            ago = "" if for_page else f" for {whole_duration(step.now - (row.lease or step.now))}"
            worker = worker_process(row.worker or "")
            return (f"worker {worker} claimed it and has been silent{ago}: another worker takes it over",)
        case NextStepKind.WORKING if row is not None:
            silent = "" if step.worker_alive else ", which has not reported lately"
            left = whole_duration((row.lease or step.now) - step.now)
            lease = "" if for_page else f"; its lease lasts {left} more"
            worker = f"worker {worker_process(row.worker or '')}{silent}"
            return (f"{worker} runs it now: {row.service}, try {row.tries + 1}{lease}",)
        case NextStepKind.OUTAGE if step.breaker is not None:
            return _outage(step, step.breaker)
        case NextStepKind.INCOMPLETE if step.unfinished is not None:
            count = step.unfinished.count
            return (f"not complete: {counted_in(count, step.unfinished.collection)} {be(count)} not finished yet",)
        case NextStepKind.SET_ASIDE if step.batch is not None:
            start, nth = f"its failed batch {step.batch.id[:SHORT_ID]} is", ordinal(step.batch.retry_count + 1)
            ending = "; it keeps failing and needs a person" if step.persistent else ""
            if step.batch.retry_after <= step.now:
                return (f"set aside: {start} due for its {nth} retry{ending}",)
            return (f"set aside: {start} retried at ", Instant(step.batch.retry_after), f" ({nth} retry){ending}")
        case NextStepKind.SCHEDULED if step.at is not None:
            due = ", which is now" if step.at <= step.now else ""
            return ("scheduled by an operator for ", Instant(step.at), due)
        case NextStepKind.PROCESSED:
            return ("nothing: it is processed",)
        case NextStepKind.DISCARDED:
            expired = has_expired(step.state)
            return (f"nothing: {'its deadline passed before a try' if expired else 'an operator discarded it'}",)
        case NextStepKind.GIVEN_UP:
            last = f", the last with {error}" if error else ""
            return (f"given up after {counted(rounds_of(step.state), 'round')}{last}",)
        case NextStepKind.FAILED:
            return (f"failed for good: {error or 'no error is stored'}",)
        case NextStepKind.ODD:
            return (f"nothing: {'; '.join(step.problems)}",)
        case NextStepKind.NOT_NOW | NextStepKind.EXHAUSTED if step.decision is not None:
            start = "not now" if step.kind is NextStepKind.NOT_NOW else "about to be given up"
            return (f"{start}: {step.decision.why}",)
    failed = f" with {error}" if error else ""
    return _by_the_retry_job(step, failed) if row is None else _waiting(step, row, failed)


def _waiting(step: NextStep, row: LedgerRow, failed: str) -> Sentence:
    if row.waits_for_key:
        tried = f" (try {row.tries} of round {row.round} failed{failed})" if row.tries else ""
        return (
            f"waiting for its key {row.serial_key!r}: {row.service} handles another event with it first{tried}",
        )
    if row.due > step.now:
        due = Instant(row.due, relative=True)
        if row.not_ready:
            times = counted(row.not_ready, "time")
            return ("retried ", due, f": a document of its event could not be read yet ({times})")
        if row.tries:
            return ("retried ", due, f": try {row.tries} of round {row.round} failed{failed}")
        return ("starts ", due, ": its event is due then")
    suspect = f" (runs alone: {row.deaths} workers died while they ran it)" if row.deaths >= SUSPECT_DEATHS else ""
    no_worker = step.kind is NextStepKind.NO_WORKER
    taken = ", but no worker runs; start one" if no_worker else ": the next free worker takes it"
    return ("due since ", Instant(row.due), f" for {row.service}{suspect}{taken}")


def _outage(step: NextStep, down: Breaker) -> Sentence:
    if step.row is not None:
        unreached, due = Instant(down.unreached_since or step.now), Instant(step.row.due, relative=True)
        return ("retried ", due, f": {down.dependency} has not been reached since ", unreached)
    waiting = f"waiting for {down.dependency}, which"
    if not down.open and down.paused_until is not None:
        return (f"{waiting} asked for a pause until ", Instant(down.paused_until))
    since: Sentence = () if down.opened_at is None else (" since ", Instant(down.opened_at))
    if down.by_hand:
        return (f"{waiting} an operator has taken out of service", *since)
    probe: Sentence = ()
    if down.next_probe is not None:
        probe = (" (next probe ", Instant(down.next_probe, relative=True), ")")
    return (f"{waiting} has been down", *since, *probe, f": {down.remedy}" if down.remedy else "")


def _by_the_retry_job(step: NextStep, failed: str) -> Sentence:
    decision = step.decision
    assert decision is not None  # without a row, the retry job has decided
    assert step.at is not None
    why = f": {decision.why}"
    ending: Sentence = ()
    if decision.until is not None:
        ending = ("; it is given up with a round that fails after ", Instant(decision.until))
    if decision.reason is RetryReason.ROUND_FAILED:
        why += f"{failed}; backoff {whole_duration(step.backoff_seconds)}"
    if decision.action is RetryAction.DUE:
        return (f"due now{why}", *ending, ". The retry job starts the next round")
    return ("due ", Instant(step.at, relative=True), why, *ending)
