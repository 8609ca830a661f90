"""Documents that fail like all others of their service: for a week, their rounds prove nothing about them."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from onward.model.documents import DocumentState
from onward.model.failures import SUCCEEDED, Outcome
from onward.model.ledger_views import FailureGroup
from onward.recovery.history import kept_outcomes

if TYPE_CHECKING:
    from onward.ledger.store import Store

FAILING_TOGETHER = 3  # documents of a service that fail, and none succeeds: that is not one document's fault
FAILING_TOGETHER_SECONDS = 7 * 86_400.0
"""After failing for this long, they are given up all the same: other documents may wait for them to end."""
MAX_GROUPS_READ = 50
_FAILED = (Outcome.RETRIED, Outcome.GAVE_UP, Outcome.SET_ASIDE)


class CommonFailures:
    """Finds documents that fail like all others of their service; facts that they share are read once."""

    def __init__(self, store: Store) -> None:
        self._services = {one.finishes: one.service for one in store.subscriptions() if one.finishes is not None}

        @cache
        def groups(service: str) -> list[FailureGroup]:
            return store.failure_groups(service=service, limit=MAX_GROUPS_READ)

        self._groups = groups

    def include(self, state: DocumentState) -> bool:
        """Return whether nothing else succeeded between its first failure and its last, and others fail, too."""
        service = self._services.get(state.collection)
        failures = [one for one in _failures(state) if isinstance(one.get(SUCCEEDED), int)]
        if service is None or not failures or failures[0][SUCCEEDED] != failures[-1][SUCCEEDED]:
            return False
        began = failures[0].get("at", 0.0)
        together = (group.affected for group in self._groups(service) if group.last_seen >= began)
        return sum(together) >= FAILING_TOGETHER


def failing_since(state: DocumentState, backoff: float) -> float | None:
    """Return when the first of its present rounds failed, or None if that is not known.

    Of rounds that are not kept in its history, each has taken about `backoff`.
    """
    oldest = next(iter(_failures(state)), None)
    if oldest is None or not isinstance(oldest.get("at"), int | float):
        return None
    not_kept: int = oldest["round"] - _round_before(state) - 1
    return float(oldest["at"]) - not_kept * backoff


def _failures(state: DocumentState) -> list[dict[str, Any]]:
    """Return the kept failures since its last success, and since its rounds were reset."""
    kept, before = kept_outcomes(state), _round_before(state)
    done = [n for n, outcome in enumerate(kept) if outcome.get("outcome") == Outcome.PROCESSED]
    kept = kept[done[-1] + 1 :] if done else kept
    return [
        outcome
        for outcome in kept
        if outcome.get("outcome") in _FAILED
        and isinstance(number := outcome.get("round"), int)
        and number > before
    ]


def _round_before(state: DocumentState) -> int:
    """Return the number of the last round that does not count any more: the others are `attempt_count`."""
    return max(0, state.round - int(state.attempt_count))
