"""The next step of a document as a sentence and as a command."""

from __future__ import annotations

from onward.model.documents import DocumentState
from onward.model.ledger import SUSPECT_DEATHS
from onward.ops.text.format import (
    SHORT_ID,
    Instant,
    Sentence,
    be,
    counted,
    counted_in,
    ordinal,
    shell_command,
    whole_duration,
    worker_process,
)
from onward.recovery.next_step import NextStep, NextStepKind, describe_error, rounds_of
from onward.recovery.retry_decision import RetryAction, RetryReason

MAX_ERROR_LENGTH = 160
UNTYPEABLE = "its id has characters that nobody can type; choose it with --group or --collection"
_BEFORE_COMMAND = {
    NextStepKind.DISCARDED: "put it back",
    NextStepKind.GIVEN_UP: "put it back",
    NextStepKind.FAILED: "retry it after a fix",
    NextStepKind.ODD: "start it again",
}
"""The words that lead to the command, for the kinds that need an operator."""


def next_step_command(step: NextStep) -> str:
    """Return the command for the operator, or nothing if there is nothing to do."""
    match step.kind:
        case NextStepKind.NO_WORKER:
            return step.start_worker
        case NextStepKind.OUTAGE if step.breaker is not None and step.breaker.open and step.breaker.by_hand:
            return "onward breakers"
        case NextStepKind.SET_ASIDE if step.persistent:
            return "onward batches list"
        case NextStepKind.ODD:
            return _for_document("onward retry --reset", step)
        case kind if kind in _BEFORE_COMMAND:
            return _for_document("onward retry", step)
    return ""


def _for_document(command: str, step: NextStep) -> str:
    return shell_command(command, f"{step.state.collection}/{step.state.id}")


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
    error = _error(step.state)
    match step.kind:
        case NextStepKind.WORKING | NextStepKind.SILENT:
            return _claimed(step, for_page=for_page)
        case NextStepKind.OUTAGE:
            return _outage(step)
        case NextStepKind.INCOMPLETE if step.unfinished is not None:
            count = step.unfinished.count
            return (f"not complete: {counted_in(count, step.unfinished.collection)} {be(count)} not finished yet",)
        case NextStepKind.SET_ASIDE:
            return _set_aside(step)
        case NextStepKind.SCHEDULED if step.at is not None:
            return (
                "scheduled by an operator for ",
                Instant(step.at),
                ", which is now" if step.at <= step.now else "",
            )
        case NextStepKind.PROCESSED:
            return ("nothing: it is processed",)
        case NextStepKind.DISCARDED:
            return ("nothing: an operator discarded it",)
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
    return _by_the_retry_job(step, error) if step.row is None else _waiting(step, error)


def _claimed(step: NextStep, *, for_page: bool) -> Sentence:
    row = step.row
    assert row is not None  # a step of this kind always has its row
    worker = worker_process(row.worker or "")
    left = (row.lease or step.now) - step.now
    if step.kind is NextStepKind.SILENT:
        ago = "" if for_page else f" for {whole_duration(-left)}"
        return (f"worker {worker} claimed it and has been silent{ago}: another worker takes it over",)
    silent = "" if step.worker_alive else ", which has not reported lately"
    lease = "" if for_page else f"; its lease lasts {whole_duration(left)} more"
    return (f"worker {worker}{silent} runs it now: {row.service}, try {row.tries + 1}{lease}",)


def _waiting(step: NextStep, error: str) -> Sentence:
    row = step.row
    assert row is not None
    if row.due > step.now:
        due = Instant(row.due, relative=True)
        if row.not_ready:
            times = counted(row.not_ready, "time")
            return ("retried ", due, f": a document of its event could not be read yet ({times})")
        if row.tries:
            failed = f" with {error}" if error else ""
            return ("retried ", due, f": try {row.tries} of round {row.round} failed{failed}")
        return ("starts ", due, ": its event is due then")
    suspect = f" (runs alone: {row.deaths} workers died while they ran it)" if row.deaths >= SUSPECT_DEATHS else ""
    no_worker = step.kind is NextStepKind.NO_WORKER
    taken = ", but no worker runs; start one" if no_worker else ": the next free worker takes it"
    return ("due since ", Instant(row.due), f" for {row.service}{suspect}{taken}")


def _outage(step: NextStep) -> Sentence:
    down = step.breaker
    assert down is not None  # a step of this kind always has its breaker
    if step.row is not None:
        unreached, due = Instant(down.unreached_since or step.now), Instant(step.row.due, relative=True)
        return ("retried ", due, f": {down.dependency} has not been reached since ", unreached)
    if not down.open and down.paused_until is not None:
        return (f"waiting for {down.dependency}, which asked for a pause until ", Instant(down.paused_until))
    since: Sentence = () if down.opened_at is None else (" since ", Instant(down.opened_at))
    if down.by_hand:
        return (f"waiting for {down.dependency}, which an operator has taken out of service", *since)
    probe: Sentence = ()
    if down.next_probe is not None:
        probe = (" (next probe ", Instant(down.next_probe, relative=True), ")")
    remedy = f": {down.remedy}" if down.remedy else ""
    return (f"waiting for {down.dependency}, which has been down", *since, *probe, remedy)


def _set_aside(step: NextStep) -> Sentence:
    batch = step.batch
    assert batch is not None  # a step of this kind always has its batch
    start, nth = f"set aside: its failed batch {batch.id[:SHORT_ID]} is", ordinal(batch.retry_count + 1)
    ending = "; it keeps failing and needs a person" if step.persistent else ""
    if batch.retry_after <= step.now:
        return (f"{start} due for its {nth} retry{ending}",)
    return (f"{start} retried at ", Instant(batch.retry_after), f" ({nth} retry){ending}")


def _by_the_retry_job(step: NextStep, error: str) -> Sentence:
    decision = step.decision
    assert decision is not None  # without a row, the retry job has decided
    assert step.at is not None
    why = f": {decision.why}"
    if decision.reason is RetryReason.ROUND_FAILED:
        why += (f" with {error}" if error else "") + f"; backoff {whole_duration(step.backoff_seconds)}"
    if decision.action is RetryAction.DUE:
        return (f"due now{why}. The retry job starts the next round",)
    return ("due ", Instant(step.at, relative=True), why)


def _error(state: DocumentState) -> str:
    text = describe_error(state.last_error)
    return text if len(text) <= MAX_ERROR_LENGTH else text[: MAX_ERROR_LENGTH - 1] + "…"
