"""Telling what became of a call: in the log, and to whoever observes."""

from __future__ import annotations

import logging

from onward.model.ledger import Aside, Charge, Dead, Done, Settled, Settlement, Verdict
from onward.runtime import signals
from onward.runtime.handling import Call, Handling

log = logging.getLogger("onward")


def log_outcome(of: Call | Handling, settlement: Settlement) -> None:
    """Say what a failed call, or the opening of a delivery, led to, at the level it deserves."""
    last = (of if isinstance(of, Handling) else of.handling).last_chances
    for part in settlement.parts:
        if isinstance(part, Done) or part.failure is None:
            continue
        failure = part.failure
        what = f"{of.service.name}: {', '.join(list(part.ids)[:3]) or 'event'}"
        problem = f"{failure.error_type}: {failure.message}"
        if isinstance(part, Aside):
            log.error("%s set aside: %s", what, problem)
        elif isinstance(part, Dead):
            log.error("%s given up (%s): %s\n%s", what, part.reason, problem, failure.traceback)
        elif any(part is one for one in last):
            log.warning("%s failed, again in %.1f s, for the last time: %s", what, part.after, problem)
        else:
            log.info("%s failed, again in %.1f s: %s", what, part.after, problem)


def tell(hooks: signals.Hooks, of: Call | Handling, settlement: Settlement, settled: Settled) -> None:
    """Tell observers what was committed."""
    handling = of if isinstance(of, Handling) else of.handling
    ids, took = ((), 0.0) if isinstance(of, Handling) else (tuple(of.ids), of.took)
    name, row = of.service.name, settlement.row
    if settled.verdict is not Verdict.COMMITTED:
        hooks(signals.Dropped(name, row, ids, settled.verdict))
        return
    tries = handling.delivery.tries + 1
    for part in settlement.parts:
        if isinstance(part, Done):
            if part.ids or not ids:
                hooks(signals.Finished(name, row, tuple(part.ids), took, tries, settled.duplicates))
            continue
        kind = part.failure.error_type if part.failure else ""
        if isinstance(part, Aside):
            hooks(signals.SetAside(name, row, tuple(part.ids), kind))
        elif isinstance(part, Dead):
            hooks(signals.GaveUp(name, row, tuple(part.ids), kind, part.reason, tries))
        elif part.failure is not None:
            not_ready = part.charge is Charge.NOT_READY
            hooks(signals.Retried(name, row, tuple(part.ids), kind, part.after, not_ready))
