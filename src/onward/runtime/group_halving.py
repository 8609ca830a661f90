"""A group that cannot be committed as a whole is halved until the bad work is alone; only that one is charged."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.ledger.store_errors import StoreFull, StoreUnavailable
from onward.model.ledger import CommitResult, Delivery
from onward.runtime.failure_policy import describe
from onward.runtime.handler_call import Call, FinishedCall
from onward.runtime.slots import ClaimRequest, RunningSlots

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")


@dataclass(slots=True)
class GroupResult:
    """The result of committing a group, and of the claim that shared its transaction."""

    left: list[FinishedCall]  # calls that are not committed yet, in their order
    done: list[tuple[FinishedCall, CommitResult]] = field(default_factory=list)
    claimed: list[tuple[ClaimRequest, list[Delivery]]] | None = None
    error: Exception | None = None  # why the store could not be written


def commit_halves(store: Store, record: RunningSlots, group: GroupResult, count: int) -> None:
    """Commit the first works that are left, of which at least one fails, half by half."""
    half = (count + 1) // 2
    if _commit_first(store, record, group, half) and count - half > 1:
        # The one that fails is in the other half: to try that as a whole would cost a transaction.
        commit_halves(store, record, group, count - half)
    elif count > half:
        _commit_first(store, record, group, count - half)


def _commit_first(store: Store, record: RunningSlots, group: GroupResult, count: int) -> bool:
    """Commit the first works that are left, in their order; return whether none of them failed."""
    some = group.left[:count]
    try:
        with record.commit([item.settlement.row for item in some if item.reply is None]):
            results = store.settle([item.settlement for item in some])
    except (StoreUnavailable, StoreFull):
        raise
    except Exception as error:
        if count > 1:
            commit_halves(store, record, group, count)
        else:
            _charge(store, group, some[0], error)
        return False
    group.done += zip(some, results, strict=True)
    del group.left[:count]
    return True


def _charge(store: Store, group: GroupResult, item: FinishedCall, error: Exception) -> None:
    """Charge the first work that is left, which cannot be committed."""
    call = item.of
    if not isinstance(call, Call):
        raise error
    problem = describe(call.opened, error).message  # without secrets, as it is stored
    log.warning("a work of service %r cannot be committed: %s", call.service.name, problem)
    if item.reply is not None:
        item.reply.set_exception(error)  # the handler is still running, and fails by it
    else:
        closes = item.settlement.closes
        item.settlement = call.failed(error)
        item.settlement.closes = closes
        group.done += [(item, result) for result in store.settle([item.settlement])]
    del group.left[0]
