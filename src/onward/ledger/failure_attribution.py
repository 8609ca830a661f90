"""Attributing a failed try to a dependency or to its documents.

This runs inside the transaction that settles the try, with locked breakers, before anything is charged. What a
failure of the documents themselves costs was decided before, by `Judge.judge` in `runtime/failure_policy.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from onward.ledger.records import DocumentRecord, RowRecord
from onward.ledger.requeue import return_try
from onward.ledger.unit_of_work import UnitOfWork
from onward.model import breaker as breakers
from onward.model.breaker import MAX_RATE_LIMITED, MAX_ROW_OPENINGS, Breaker, Strike
from onward.model.failures import Failure
from onward.model.ledger import (
    Charge,
    DeadLettered,
    DependencyReport,
    InFailedBatch,
    Processed,
    RetryLater,
    SettlementPart,
)

OTHERS_SUCCEEDED = "others_succeeded"
"""In a document's last error: it was given up while others succeeded with the same dependency."""


@dataclass(slots=True)
class Attribution:
    """The result of attributing a failed try: what happens to breakers and to the settlement's parts."""

    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    retry_at: float | None = None
    """The dependency caused the failures: nothing is charged, and they are retried at this time."""
    strikes_on: str | None = None
    """The dependency on whose breaker the failures are recorded, once their rows are known."""
    others_succeeded: bool = False
    """Other documents have succeeded since: if a document is given up now, the failure is its own."""
    known_as_own: bool = False  # Its documents were given up like this before, while others succeeded


def attribute_failure(
    unit: UnitOfWork, row: RowRecord, report: DependencyReport, parts: Sequence[SettlementPart]
) -> Attribution:
    """Update the breakers by a report; return what caused the failure."""
    attribution = Attribution()
    if report.struck or report.opens or report.paused or _changes(unit, row, report.succeeded):
        unit.lock_breakers()
    for dependency in report.succeeded:
        before = unit.breaker(dependency)
        after = breakers.succeeded(before, row.id, unit.now)
        unit.save_breaker(after)
        if before.open and not after.open:
            attribution.closed = (*attribution.closed, dependency)
    if report.paused is not None:
        until = unit.now + report.pause
        unit.save_breaker(breakers.paused(unit.breaker(report.paused), until))
        if row.given_back < MAX_RATE_LIMITED:
            attribution.retry_at = until
    if (name := report.opens or report.struck) is not None:
        _attribute_failed_call(unit, row, report, parts, unit.breaker(name), attribution)
    return attribution


def _attribute_failed_call(
    unit: UnitOfWork,
    row: RowRecord,
    report: DependencyReport,
    parts: Sequence[SettlementPart],
    before: Breaker,
    attribution: Attribution,
) -> None:
    # A failure with a remedy is given back until a person acts; the breaker is shown as needing a person.
    insists = report.opens is not None and bool(report.remedy) and not before.worked
    may_open = insists or row.openings < MAX_ROW_OPENINGS
    if before.open:
        # It was running when the breaker opened, or it is the probe. A probe goes to the back of the queue, so
        # that the next probe is another document.
        is_probe = before.probe_row == row.id
        attribution.retry_at = (before.next_probe or unit.now) + 1.0 if is_probe else unit.now
        return
    attribution.others_succeeded = before.worked or not any(strike.row == row.id for strike in before.strikes)
    if report.opens is not None and may_open and not (report.by_health and before.health_doubted):
        after = breakers.opened(before, unit.now, report.reason, report.remedy)
    elif not may_open or _is_known_as_own(unit, row, parts):
        attribution.known_as_own = True
        return
    else:
        after = before
        for strike in strikes_of(row, report, parts):
            after = breakers.struck(after, strike, unit.now, report.reason, report.remedy)
    if after.open:
        for strike in before.strikes:
            return_try(unit, strike)
        unit.save_breaker(after)
        attribution.opened = (before.dependency,)
        row.openings += 1
        attribution.retry_at = unit.now
        return
    attribution.strikes_on = before.dependency
    if report.unreached and breakers.is_lone_wait(before, row.id, row.given_back):
        attribution.retry_at = unit.now + breakers.lone_wait_seconds(row.given_back)
        unit.save_breaker(breakers.unreached(before, unit.now, report.reason))


def _is_known_as_own(unit: UnitOfWork, row: RowRecord, parts: Sequence[SettlementPart]) -> bool:
    """Return whether all documents were given up before with the same error, while others succeeded.

    Then the failure proves nothing about the dependency.
    """
    failed = [part for part in parts if not isinstance(part, Processed) and part.failure is not None]
    keys = [((row.collection or "", id), part.failure) for part in failed for id in part.ids]
    return bool(keys) and all(_was_given_up(unit.document(key), failure) for key, failure in keys)


def _was_given_up(doc: DocumentRecord | None, failure: Failure | None) -> bool:
    if doc is None or doc.last_error is None or failure is None or doc.fingerprint != failure.fingerprint:
        return False
    try:
        error = json.loads(doc.last_error)
    except ValueError:  # another program may have written it
        return False
    return isinstance(error, dict) and error.get(OTHERS_SUCCEEDED) is True


def _changes(unit: UnitOfWork, row: RowRecord, succeeded: Sequence[str]) -> bool:
    """Return whether a success changes a breaker; nearly always it does not, and nothing is locked."""
    used = [unit.breaker(name) for name in succeeded]
    return any(breakers.succeeded(breaker, row.id, unit.now) != breaker for breaker in used)


def strikes_of(row: RowRecord, report: DependencyReport, parts: Sequence[SettlementPart]) -> list[Strike]:
    """Return the strikes of a failed try: one for each charged part, or one for a call that is halved."""
    charged = [part for part in parts if not isinstance(part, Processed) and _is_charged(part)]
    return [Strike(row.id, tuple(part.ids)) for part in charged] or [Strike(row.id, tuple(report.ids), False)]


def _is_charged(part: SettlementPart) -> bool:
    return isinstance(part, RetryLater | DeadLettered) and part.charge is Charge.TRY


def record_strikes(unit: UnitOfWork, dependency: str, strikes: Sequence[Strike], reason: str) -> None:
    """Record failures that did not open a breaker; if it opens later, they are given back."""
    after = unit.breaker(dependency)
    for strike in strikes:
        after = breakers.struck(after, strike, unit.now, reason)
    unit.save_breaker(after)


def without_charges(parts: Sequence[SettlementPart], retry_at: float) -> list[SettlementPart]:
    """Return the parts with the dependency's failures as uncharged retries; a permanent failure stays."""
    kept = [part for part in parts if not _may_be_given_back(part)]
    given_back = [part for part in parts if not isinstance(part, Processed) and _may_be_given_back(part)]
    if not given_back:
        return kept
    ids = [id for part in given_back for id in part.ids]
    return [*kept, RetryLater(ids, until=retry_at, failure=given_back[0].failure, given_back=True)]


def _may_be_given_back(part: SettlementPart) -> bool:
    match part:
        case Processed():
            return False
        case RetryLater():
            halved = part.charge is Charge.NOTHING and part.failure is not None
            return halved or part.charge is Charge.TRY
        case DeadLettered():
            return part.charge is Charge.TRY and not part.final
        case InFailedBatch():
            return True


def open_breaker(
    unit: UnitOfWork, dependency: str, reason: str, remedy: str = "", *, by_hand: bool = False
) -> None:
    """Open a breaker and give back the tries of its strikes."""
    unit.lock_breakers()
    before = unit.breaker(dependency)
    for strike in before.strikes:
        return_try(unit, strike)
    unit.save_breaker(breakers.opened(before, unit.now, reason, remedy, by_hand=by_hand))
