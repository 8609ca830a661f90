"""The breakers of dependencies, and attributing a failed try to a dependency or to its documents.

A try is attributed inside the transaction that settles it, with locked breakers, before anything is charged. What
a failure of the documents costs was decided before, in `runtime/failure_policy.py`.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onward.ledger.records import RowRecord
from onward.ledger.requeue import return_try
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model import breaker as rules
from onward.model.breaker import Breaker, Strike
from onward.model.ledger import (
    Charge,
    DeadLettered,
    DependencyReport,
    Expired,
    InFailedBatch,
    Processed,
    RetryLater,
    SettlementPart,
)
from onward.retry import redact

# In a document's last error: it was given up while others succeeded with the same dependency.
OTHERS_SUCCEEDED = "others_succeeded"
Parts = Sequence[SettlementPart]


class Breakers(TransactionalStore):
    def breakers(self) -> list[Breaker]:
        """Return the breakers that are open, limited, paused or in an episode."""
        now = self.now()
        breakers = [rules.current(Breaker.from_dict(stored), now) for stored in self.db.read("breakers")]
        return [breaker for breaker in breakers if not breaker.quiet]

    def openings(self, dependency: str | None = None) -> list[dict[str, Any]]:
        fields = ("dependency", "opened_at", "closed_at", "reason", "remedy")
        return [dict(zip(fields, opening, strict=True)) for opening in self.db.read("openings", dependency)]

    @transactional
    def open_breaker(
        self,
        unit: UnitOfWork,
        dependency: str,
        reason: str,
        *,
        remedy: str = "",
        by_hand: bool = False,
        probed: bool = True,
    ) -> None:
        """Open a breaker and return the tries that its strikes have cost; if not `probed`, it stays open."""
        unit.breakers.lock()
        before = unit.breakers.of(dependency)
        for strike in before.strikes:
            return_try(unit, strike)
        reason, remedy = redact(reason), redact(remedy)
        after = rules.opened(before, unit.now, reason, remedy, by_hand=by_hand, rules=unit.breaker_rules)
        unit.breakers.save(after if probed else replace(after, next_probe=None))

    @transactional
    def remove_breaker(self, unit: UnitOfWork, dependency: str) -> None:
        """Close the breaker of what no service needs, such as an account: no document ends its episode."""
        unit.breakers.lock()
        unit.breakers.save(Breaker(dependency))

    @transactional
    def close_breaker(self, unit: UnitOfWork, dependency: str, *, probed: bool = False) -> bool:
        """Close a breaker for a person, or after a health call (`probed`); return whether it changed.

        A health call does not close a breaker that a person has opened.
        """
        unit.breakers.lock()
        breaker = unit.breakers.of(dependency)
        closes = not breaker.by_hand and breaker.open if probed else breaker.failing_since is not None
        if closes:
            # A person ends the episode; the fleet starts again with one event at a time.
            ended = Breaker(dependency, limit=1, paused_until=breaker.paused_until)
            after = rules.closed(breaker, unit.now) if probed else ended
            unit.breakers.save(after)
        return closes

    @transactional
    def record_health_doubt(self, unit: UnitOfWork, dependency: str) -> None:
        """Record that a document succeeded while the health call failed: in this episode that opens nothing."""
        unit.breakers.lock()
        breaker = unit.breakers.of(dependency)
        if breaker.episode_began_at is not None:
            unit.breakers.save(replace(breaker, health_doubted=True))

    @transactional
    def claim_probe(self, unit: UnitOfWork, dependency: str) -> bool:
        """Claim the due probe of an open breaker for a health call; return False if it is not due, or claimed."""
        unit.breakers.lock()
        breaker = unit.breakers.of(dependency)
        due = rules.is_health_probe_due(breaker, unit.now)
        if due:
            unit.breakers.save(rules.asking_health(breaker, unit.now, unit.breaker_rules))
        return due

    def next_change(self) -> float | None:
        """Return when a lease lapses or a breaker may allow claims; None: nothing is pending."""
        now = self.now()
        times = [rules.next_change(breaker, now) for breaker in self.breakers()]
        times.append(self.db.read("next_lapse"))
        return min((time for time in times if time is not None), default=None)


@dataclass(slots=True)
class Attribution:
    """The result of attributing a failed try: what happens to breakers and to the settlement's parts."""

    opened: tuple[str, ...] = ()
    closed: tuple[str, ...] = ()
    retry_at: float | None = None  # The dependency is the cause: nothing is charged, and this is the time to retry
    strikes_on: str | None = None  # The dependency whose breaker records the failures, once their rows are known
    others_succeeded: bool = False  # Since then: if a document is given up now, the failure is its own
    known_as_own: bool = False  # Its documents were given up like this before, while others succeeded


def attribute_failure(unit: UnitOfWork, row: RowRecord, report: DependencyReport, parts: Parts) -> Attribution:
    """Update the breakers by a report; return what caused the failure."""
    attribution = Attribution()
    used = [unit.breakers.of(name) for name in report.succeeded]
    # Nearly always, a success changes no breaker, and nothing is locked.
    changes = any(rules.succeeded(breaker, row.id, unit.now, unit.breaker_rules) != breaker for breaker in used)
    if report.struck or report.opens or report.paused or changes:
        unit.breakers.lock()
    for dependency in report.succeeded:
        before = unit.breakers.of(dependency)
        after = rules.succeeded(before, row.id, unit.now, unit.breaker_rules)
        unit.breakers.save(after)
        if before.open and not after.open:
            attribution.closed = (*attribution.closed, dependency)
    if report.paused is not None:
        until = unit.now + report.pause
        unit.breakers.save(rules.paused(unit.breakers.of(report.paused), until))
        if row.given_back < rules.MAX_RATE_LIMITED:
            attribution.retry_at = until
    if (name := report.opens or report.struck) is not None:
        _attribute_failed_call(unit, row, report, parts, unit.breakers.of(name), attribution)
    return attribution


def _attribute_failed_call(
    unit: UnitOfWork, row: RowRecord, report: DependencyReport, parts: Parts, before: Breaker, result: Attribution
) -> None:
    # A failure with a remedy is given back until a person acts; the breaker is shown as needing a person.
    insists = report.opens is not None and bool(report.remedy) and not before.worked
    may_open = insists or row.openings < rules.MAX_ROW_OPENINGS
    if before.open:
        # It was running when the breaker opened, or it is the probe. A probe goes to the back of the queue, so
        # that the next probe is another document.
        is_probe = before.probe_row == row.id
        result.retry_at = (before.next_probe or unit.now) + 1.0 if is_probe else unit.now
        return
    result.others_succeeded = before.worked or not any(strike.row == row.id for strike in before.strikes)
    if report.opens is not None and may_open and not (report.by_health and before.health_doubted):
        after = rules.opened(before, unit.now, report.reason, report.remedy, rules=unit.breaker_rules)
    elif not may_open or _is_known_as_own(unit, row, parts):
        result.known_as_own = True
        return
    else:
        after = before
        for strike in strikes_of(row, report, parts):
            after = rules.struck(after, strike, unit.now, report.reason, report.remedy, rules=unit.breaker_rules)
    if after.open:
        for strike in before.strikes:
            return_try(unit, strike)
        unit.breakers.save(after)
        result.opened = (before.dependency,)
        row.openings += 1
        result.retry_at = unit.now
        return
    result.strikes_on = before.dependency
    # If the row failed before and its strike is gone, a success has removed it: then the failure is charged.
    is_lone_wait = row.given_back == 0 or any(strike.row == row.id for strike in before.strikes)
    if report.unreached and is_lone_wait:
        delay = unit.breaker_rules.probe_seconds * 2 ** min(row.given_back, 10)
        result.retry_at = unit.now + min(delay, unit.breaker_rules.probe_max_seconds)
        unit.breakers.save(rules.unreached(before, unit.now, report.reason))


def _is_known_as_own(unit: UnitOfWork, row: RowRecord, parts: Parts) -> bool:
    """Return whether all documents were given up before with the same error, while others succeeded.

    Then the failure proves nothing about the dependency.
    """
    failed = [(id, part.failure) for part in parts if not isinstance(part, Processed | Expired) for id in part.ids]
    failed = [(id, failure) for id, failure in failed if failure is not None]
    for id, failure in failed:
        doc = unit.document((row.collection or "", id))
        if doc is None or doc.last_error is None or failure is None or doc.fingerprint != failure.fingerprint:
            return False
        try:
            error = json.loads(doc.last_error)
        except ValueError:  # another program may have written it
            return False
        if not isinstance(error, dict) or error.get(OTHERS_SUCCEEDED) is not True:
            return False
    return bool(failed)


def strikes_of(row: RowRecord, report: DependencyReport, parts: Parts) -> list[Strike]:
    """Return the strikes of a failed try: one for each charged part, or one for a call that is halved."""
    return [
        Strike(row.id, tuple(part.ids))
        for part in parts
        if isinstance(part, RetryLater | DeadLettered) and part.charge is Charge.TRY
    ] or [Strike(row.id, tuple(report.ids), charged=False)]


def record_strikes(unit: UnitOfWork, dependency: str, strikes: Sequence[Strike], reason: str) -> None:
    """Record failures that did not open a breaker; if it opens later, they are given back."""
    after = unit.breakers.of(dependency)
    for strike in strikes:
        after = rules.struck(after, strike, unit.now, reason, rules=unit.breaker_rules)
    unit.breakers.save(after)


def without_charges(parts: Parts, retry_at: float) -> list[SettlementPart]:
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
