"""The load on a service, from what its store has kept."""

from __future__ import annotations

from typing import Any

from onward.ledger.store import Store
from onward.model.documents import Status
from onward.model.rollups import MINUTE, ServiceCounts
from onward.ops.queries.services import runs
from onward.runtime.process_identity import alive_workers
from onward.runtime.service import Service

HISTORY_SECONDS = 86_400.0
GIVEN_UP = (Status.FAILED, Status.FAILED_MAX_RETRIES)


def read_history(store: Store, service: Service) -> dict[str, Any]:
    """Return the fields of a load that the store knows: of the last day, the time in which the service worked."""
    found: dict[str, Any] = {}
    total, busy = ServiceCounts(), 0
    for counts in store.service_counts(MINUTE, store.now() - HISTORY_SECONDS, service.name).values():
        busy += counts.events > 0
        total.add(counts)
    if total.events:
        # A call may be about many documents, but each is one call here.
        found["per_second"] = total.events / (busy * MINUTE)
        found["found_in"] = f"the history of the last day: the {busy} min in which the service worked"
    if total.events and total.mean_seconds:
        found["duration"] = total.mean_seconds
    if workers := sum(runs(worker, service.name) for worker in alive_workers(store)):
        found["workers"] = workers
    counts_by_status = store.document_counts().get(service.finishes.collection if service.finishes else "", {})
    given_up = sum(counts_by_status.get(status, 0) for status in GIVEN_UP)
    if finished := given_up + counts_by_status.get(Status.PROCESSED, 0):
        found["failing"] = round(min(given_up / finished, 0.99), 4)
    return found
