"""Reporting what became of calls: in the log, and to observers."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from onward.model.ledger import (
    Charge,
    CommitResult,
    CommitStatus,
    DeadLettered,
    InFailedBatch,
    Processed,
    Settlement,
    SettlementPart,
)
from onward.runtime import observers
from onward.runtime.handler_call import Call, FinishedCall, OpenDelivery
from onward.runtime.tracing import parent_of

log = logging.getLogger("onward")

MAX_NAMED = 5  # documents that a line of the log names


def log_fields(of: Call | OpenDelivery, ids: Sequence[str] | None = None) -> dict[str, Any]:
    """Return the fields of a log line about a call, or about those of its documents that `ids` names."""
    delivery = of.delivery
    if ids is None:
        ids = of.ids if isinstance(of, Call) else [given.id for given in delivery.inputs]
    fields: dict[str, Any] = {
        "worker": (of.opened if isinstance(of, Call) else of).context.worker,
        "service": of.service.name,
        "event": delivery.event_id,
        "documents": [f"{delivery.collection}/{id}" for id in ids[:MAX_NAMED]],
        "round": delivery.round,
        "try": delivery.tries + 1,
        "trace": parent_of(delivery.trace),
    }
    if len(ids) > MAX_NAMED:
        fields["document_count"] = len(ids)
    return fields


def report(hooks: observers.Hooks, done: Sequence[tuple[FinishedCall, CommitResult]]) -> None:
    """Log and signal what was committed, and what was dropped."""
    for item, result in done:
        of, settlement = item.of, item.settlement
        if result.status is not CommitStatus.COMMITTED:
            log.info("%s: a work was dropped, its delivery is %s", of.service.name, result.status)
            ids = tuple(of.ids) if isinstance(of, Call) else ()
            hooks(observers.Dropped(of.service.name, settlement.row, ids, result.status))
        elif item.reply is None:  # a checkpoint is no outcome
            log_outcome(of, settlement, result)
            if hooks:
                _signal(hooks, of, settlement, result)


def log_outcome(of: Call | OpenDelivery, settlement: Settlement, result: CommitResult) -> None:
    """Log what a failed call, or the opening of a delivery, led to, at the level it deserves."""
    for part in settlement.parts if result.parts is None else result.parts:
        if not isinstance(part, Processed) and part.failure is not None:
            _log_failure(of, part)


def _log_failure(of: Call | OpenDelivery, part: SettlementPart) -> None:
    assert not isinstance(part, Processed), "what was processed has not failed"
    failure = part.failure
    assert failure is not None, "the caller has looked"
    what = f"{of.service.name}: {', '.join(list(part.ids)[:3]) or 'event'}"
    problem = f"{failure.error_type}: {failure.message}"
    fields = log_fields(of, list(part.ids)) | {"error_type": failure.error_type}
    extra = {"onward": fields}
    last = (of.opened if isinstance(of, Call) else of).last_chances
    if isinstance(part, InFailedBatch):
        log.error("%s set aside: %s", what, problem, extra=extra)
    elif isinstance(part, DeadLettered):
        fields["traceback"] = failure.traceback
        log.error("%s given up (%s): %s\n%s", what, part.reason, problem, failure.traceback, extra=extra)
    elif any(part is chance for chance in last):
        log.warning("%s failed, again in %.1f s, for the last time: %s", what, part.after, problem, extra=extra)
    elif part.given_back:
        log.info("%s waits for its dependency, uncharged: %s", what, problem, extra=extra)
    else:
        log.info("%s failed, again in %.1f s: %s", what, part.after, problem, extra=extra)


def _signal(hooks: observers.Hooks, of: Call | OpenDelivery, settlement: Settlement, result: CommitResult) -> None:
    ids, seconds = (tuple(of.ids), of.seconds) if isinstance(of, Call) else ((), 0.0)
    name, row, delivery = of.service.name, settlement.row, of.delivery
    tries = delivery.tries + delivery.not_ready + 1
    for part in settlement.parts if result.parts is None else result.parts:
        if isinstance(part, Processed):
            if part.ids or not ids:
                retried_for = None if delivery.failed_at is None else _seconds_since_failure(of)
                hooks(
                    observers.Finished(name, row, tuple(part.ids), seconds, tries, result.duplicates, retried_for)
                )
            continue
        kind = part.failure.error_type if part.failure else ""
        if isinstance(part, InFailedBatch):
            hooks(observers.SetAside(name, row, tuple(part.ids), kind, part.failure))
        elif isinstance(part, DeadLettered):
            hooks(observers.GaveUp(name, row, tuple(part.ids), kind, part.reason, tries, part.failure))
        elif part.failure is not None:
            not_ready = part.charge is Charge.NOT_READY
            hooks(observers.Retried(name, row, tuple(part.ids), kind, part.after, not_ready, part.failure))


def _seconds_since_failure(of: Call | OpenDelivery) -> float:
    """Return the seconds since an event failed for the first time."""
    context = (of.opened if isinstance(of, Call) else of).context
    return max(0.0, context.now() - (of.delivery.failed_at or 0.0))


def report_breakers(hooks: observers.Hooks, result: CommitResult) -> None:
    """Log and signal the breakers that a commit has opened or closed."""
    for dependency in result.opened:
        log.warning("the breaker of %s opened: what needs it waits, and loses no tries", dependency)
        hooks(observers.BreakerMoved(dependency, True))
    for dependency in result.closed:
        log.info("the breaker of %s closed", dependency)
        hooks(observers.BreakerMoved(dependency, False))
