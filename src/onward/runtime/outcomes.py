"""Telling what became of a call: in the log, and to whoever observes."""

from __future__ import annotations

import logging

from onward.model.ledger import Charge, Dead, Done, Settled, Settlement, Verdict
from onward.runtime import signals
from onward.runtime.handling import Call

log = logging.getLogger("onward")


def log_outcome(call: Call, settlement: Settlement) -> None:
    """Say what a failed call led to, at the level it deserves."""
    for part in settlement.parts:
        if isinstance(part, Done) or part.failure is None:
            continue
        failure = part.failure
        what = f"{call.service.name}: {', '.join(list(part.ids)[:3]) or 'event'}"
        problem = f"{failure.error_type}: {failure.message}"
        if isinstance(part, Dead):
            log.error("%s given up (%s): %s\n%s", what, part.reason, problem, failure.traceback)
        elif call.judgement is not None and call.judgement.last:
            log.warning("%s failed, again in %.1f s, for the last time: %s", what, part.after, problem)
        else:
            log.info("%s failed, again in %.1f s: %s", what, part.after, problem)


def tell(hooks: signals.Hooks, call: Call, settlement: Settlement, settled: Settled) -> None:
    """Tell observers what was committed."""
    name, row, ids = call.service.name, settlement.row, tuple(call.ids)
    if settled.verdict is not Verdict.COMMITTED:
        hooks(signals.Dropped(name, row, ids, settled.verdict))
        return
    tries = call.handling.delivery.tries + 1
    for part in settlement.parts:
        if isinstance(part, Done):
            hooks(signals.Finished(name, row, tuple(part.ids), call.took, tries, settled.duplicates))
            continue
        kind = part.failure.error_type if part.failure else ""
        if isinstance(part, Dead):
            hooks(signals.GaveUp(name, row, tuple(part.ids), kind, part.reason, tries))
        elif part.failure is not None:
            not_ready = part.charge is Charge.NOT_READY
            hooks(signals.Retried(name, row, tuple(part.ids), kind, part.after, not_ready))
