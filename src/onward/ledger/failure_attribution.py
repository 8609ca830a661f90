"""Attributing a failed try to a dependency or to its documents.

This runs inside the transaction that settles the try, with locked breakers, before anything is charged. What a
failure of the documents themselves costs was decided before, by `Judge.judge` in `runtime/failure_policy.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from onward.ledger.records import RowRecord
from onward.ledger.requeue import return_try
from onward.ledger.unit_of_work import UnitOfWork
from onward.model import breaker as breakers
from onward.model.breaker import MAX_RATE_LIMITED, MAX_ROW_OPENINGS, Breaker, Strike
from onward.model.documents import DocumentKey
from onward.model.ledger import (
    Charge,
    DeadLettered,
    DependencyReport,
    InFailedBatch,
    Processed,
    RetryLater,
    SettlementPart,
)

# In a document's last error: it was given up while others succeeded with the same dependency.
OTHERS_SUCCEEDED = "others_succeeded"


@dataclass(slots=True)
class Attribution:
    """The result of attributing a failed try: what happens to breakers and to the settlement's parts."""

    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    retry_at: float | None = None  # The dependency is the cause: nothing is charged, and this is the time to retry
    strikes_on: str | None = None  # The dependency whose breaker records the failures, once their rows are known
    others_succeeded: bool = False  # Since then: if a document is given up now, the failure is its own
    known_as_own: bool = False  # Its documents were given up like this before, while others succeeded


def attribute_failure(
    unit: UnitOfWork, row: RowRecord, report: DependencyReport, parts: Sequence[SettlementPart]
) -> Attribution:
    """Update the breakers by a report; return what caused the failure."""
    attribution = Attribution()
    used = [unit.breaker(name) for name in report.succeeded]
    # Nearly always, a success changes no breaker, and nothing is locked.
    changes = any(breakers.succeeded(breaker, row.id, unit.now) != breaker for breaker in used)
    if report.struck or report.opens or report.paused or changes:
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
    # If the row failed before and its strike is gone, a success has removed it: then the failure is charged.
    is_lone_wait = row.given_back == 0 or any(strike.row == row.id for strike in before.strikes)
    if report.unreached and is_lone_wait:
        attribution.retry_at = unit.now + breakers.lone_wait_seconds(row.given_back)
        unit.save_breaker(breakers.unreached(before, unit.now, report.reason))


def _is_known_as_own(unit: UnitOfWork, row: RowRecord, parts: Sequence[SettlementPart]) -> bool:
    """Return whether all documents were given up before with the same error, while others succeeded.

    Then the failure proves nothing about the dependency.
    """

    def was_given_up(key: DocumentKey, fingerprint: str) -> bool:
        doc = unit.document(key)
        if doc is None or doc.last_error is None or doc.fingerprint != fingerprint:
            return False
        try:
            error = json.loads(doc.last_error)
        except ValueError:  # another program may have written it
            return False
        return isinstance(error, dict) and error.get(OTHERS_SUCCEEDED) is True

    failed = [
        ((row.collection or "", id), part.failure.fingerprint)
        for part in parts
        if not isinstance(part, Processed) and part.failure is not None
        for id in part.ids
    ]
    return bool(failed) and all(was_given_up(key, fingerprint) for key, fingerprint in failed)


def strikes_of(row: RowRecord, report: DependencyReport, parts: Sequence[SettlementPart]) -> list[Strike]:
    """Return the strikes of a failed try: one for each charged part, or one for a call that is halved."""
    return [
        Strike(row.id, tuple(part.ids))
        for part in parts
        if isinstance(part, RetryLater | DeadLettered) and part.charge is Charge.TRY
    ] or [Strike(row.id, tuple(report.ids), charged=False)]


def record_strikes(unit: UnitOfWork, dependency: str, strikes: Sequence[Strike], reason: str) -> None:
    """Record failures that did not open a breaker; if it opens later, they are given back."""
    after = unit.breaker(dependency)
    for strike in strikes:
        after = breakers.struck(after, strike, unit.now, reason)
    unit.save_breaker(after)


def without_charges(parts: Sequence[SettlementPart], retry_at: float) -> list[SettlementPart]:
    """Return the parts with the dependency's failures as uncharged retries; a permanent failure stays."""
    kept: list[SettlementPart] = []
    given_back: list[RetryLater | DeadLettered | InFailedBatch] = []
    for part in parts:
        match part:
            case RetryLater() if part.charge is Charge.TRY or (part.charge is Charge.NOTHING and part.failure):
                given_back.append(part)  # charged, or halved
            case DeadLettered() if part.charge is Charge.TRY and not part.final:
                given_back.append(part)
            case InFailedBatch():
                given_back.append(part)
            case _:
                kept.append(part)
    if given_back:
        ids = [id for part in given_back for id in part.ids]
        kept.append(RetryLater(ids, until=retry_at, failure=given_back[0].failure, given_back=True))
    return kept
