"""Telling what became of a call: in the log, and to whoever observes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from typing import Any

from onward.model.ledger import Aside, Charge, Dead, Done, Settled, Settlement, Verdict
from onward.runtime import signals
from onward.runtime.handling import Call, Handling
from onward.runtime.tracing import handed_on

log = logging.getLogger("onward")

MOST_NAMED = 5
"""Documents that a line of the log names."""


def log_fields(of: Call | Handling, ids: Sequence[str] | None = None) -> dict[str, Any]:
    """What a line of the log says of a call, or of the documents of it that `ids` names."""
    handling = of if isinstance(of, Handling) else of.handling
    delivery = handling.delivery
    if ids is None:
        ids = [one.id for one in delivery.inputs] if isinstance(of, Handling) else of.ids
    fields: dict[str, Any] = {
        "worker": handling.context.worker,
        "service": of.service.name,
        "event": delivery.event_id,
        "documents": [f"{delivery.collection}/{id}" for id in ids[:MOST_NAMED]],
        "round": delivery.round,
        "try": delivery.tries + 1,
        "trace": handed_on(delivery.trace),
    }
    if len(ids) > MOST_NAMED:
        fields["document_count"] = len(ids)
    return fields


def log_outcome(of: Call | Handling, settlement: Settlement) -> None:
    """Say what a failed call, or the opening of a delivery, led to, at the level it deserves."""
    last = (of if isinstance(of, Handling) else of.handling).last_chances
    for part in settlement.parts:
        if isinstance(part, Done) or part.failure is None:
            continue
        failure = part.failure
        what = f"{of.service.name}: {', '.join(list(part.ids)[:3]) or 'event'}"
        problem = f"{failure.error_type}: {failure.message}"
        fields = log_fields(of, list(part.ids)) | {"error_type": failure.error_type}
        extra = {"onward": fields}
        if isinstance(part, Aside):
            log.error("%s set aside: %s", what, problem, extra=extra)
        elif isinstance(part, Dead):
            fields["traceback"] = failure.traceback
            log.error("%s given up (%s): %s\n%s", what, part.reason, problem, failure.traceback, extra=extra)
        elif any(part is one for one in last):
            log.warning(
                "%s failed, again in %.1f s, for the last time: %s", what, part.after, problem, extra=extra
            )
        else:
            log.info("%s failed, again in %.1f s: %s", what, part.after, problem, extra=extra)


def tell(hooks: signals.Hooks, of: Call | Handling, settlement: Settlement, settled: Settled) -> None:
    """Tell observers what was committed."""
    handling = of if isinstance(of, Handling) else of.handling
    ids, took = ((), 0.0) if isinstance(of, Handling) else (tuple(of.ids), of.took)
    name, row = of.service.name, settlement.row
    if settled.verdict is not Verdict.COMMITTED:
        hooks(signals.Dropped(name, row, ids, settled.verdict))
        return
    tries = handling.delivery.tries + handling.delivery.not_ready + 1
    for part in settlement.parts:
        if isinstance(part, Done):
            if part.ids or not ids:
                retried_for = _retried_for(handling)
                hooks(signals.Finished(name, row, tuple(part.ids), took, tries, settled.duplicates, retried_for))
            continue
        kind = part.failure.error_type if part.failure else ""
        if isinstance(part, Aside):
            hooks(signals.SetAside(name, row, tuple(part.ids), kind, part.failure))
        elif isinstance(part, Dead):
            hooks(signals.GaveUp(name, row, tuple(part.ids), kind, part.reason, tries, part.failure))
        elif part.failure is not None:
            not_ready = part.charge is Charge.NOT_READY
            hooks(signals.Retried(name, row, tuple(part.ids), kind, part.after, not_ready, part.failure))


def _retried_for(handling: Handling) -> float | None:
    """Seconds since the first of the failures that a delivery looks back on."""
    first = handling.delivery.errors.get("first") if handling.delivery.errors else None
    at = first.get("at") if isinstance(first, dict) else None
    return max(0.0, handling.context.now() - at) if isinstance(at, int | float) else None
