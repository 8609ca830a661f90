"""Documents that fail like all others of their service: their rounds prove nothing about them."""

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
        failures = [
            outcome
            for outcome in _since_success(state)
            if outcome.get("outcome") in _FAILED and isinstance(outcome.get(SUCCEEDED), int)
        ]
        if service is None or not failures or failures[0][SUCCEEDED] != failures[-1][SUCCEEDED]:
            return False
        began = failures[0].get("at", 0.0)
        together = (group.affected for group in self._groups(service) if group.last_seen >= began)
        return sum(together) >= FAILING_TOGETHER


def _since_success(state: DocumentState) -> list[dict[str, Any]]:
    kept = kept_outcomes(state)
    done = [n for n, outcome in enumerate(kept) if outcome.get("outcome") == Outcome.PROCESSED]
    return kept[done[-1] + 1 :] if done else kept
