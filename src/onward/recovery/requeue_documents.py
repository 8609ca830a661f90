"""Requeueing documents: makes the event that brings each to its service, outside of the transaction."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from onward.model.documents import FINAL, DocumentState
from onward.model.events import Envelope, Event
from onward.model.ledger import RowState
from onward.runtime.registry import Registry
from onward.runtime.service import Service
from onward.runtime.tracing import requeued_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")


@dataclass(slots=True)
class RequeuePlan:
    """The events to publish, and the documents that cannot be requeued now."""

    events: list[tuple[Service, Event, list[DocumentState]]] = field(default_factory=list)
    # Dead letters that are requeued as they are, with their documents.
    dead_letters: dict[int, list[DocumentState]] = field(default_factory=dict)
    left: list[DocumentState] = field(default_factory=list)


@dataclass
class DocumentRequeue:
    """Finds the service that finishes a document, and makes its event."""

    store: Store
    registry: Registry
    at_once: ClassVar = 500  # documents that are requeued in one transaction

    def down(self) -> set[str]:
        return {breaker.dependency for breaker in self.store.breakers() if breaker.open}

    def _finishers(self, collection: str) -> list[Service]:
        services = self.registry.services.values()
        return [service for service in services if service.finishes and service.finishes.collection == collection]

    def collections(self, down: set[str]) -> list[str]:
        """Return the collections that are finished here, by services that can work now.

        Another app may have documents in the same store, and a retry job of its own.
        """
        able = (service for service in self.registry.services.values() if down.isdisjoint(service.needs))
        return sorted({service.finishes.collection for service in able if service.finishes is not None})

    def held_up(self, state: DocumentState, down: set[str]) -> str:
        """Return the dependencies that block every service that could finish a document; empty: none."""
        needs = [down & set(service.needs) for service in self._finishers(state.collection)]
        return ", ".join(sorted(set.union(*needs))) if needs and all(needs) else ""

    # -- planning: runs code of the app, and so outside of any transaction

    def plan(self, states: Sequence[DocumentState], down: set[str]) -> RequeuePlan:
        plan = RequeuePlan()
        by_collection: defaultdict[str, dict[str, DocumentState]] = defaultdict(dict)
        for state in states:
            by_collection[state.collection][state.id] = state
        for collection, found in by_collection.items():
            for service in self._finishers(collection):
                if found and down.isdisjoint(service.needs) and service.makes_events:
                    self._plan_events(service, found, plan)
                elif found and down.isdisjoint(service.needs):
                    self._plan_dead_letters(found, plan)
            plan.left += found.values()
        return plan

    def _plan_events(self, service: Service, states: dict[str, DocumentState], plan: RequeuePlan) -> None:
        """Make events; documents with the same attempt count and deadline share one."""
        by_attempt: defaultdict[tuple[int, float | None], list[DocumentState]] = defaultdict(list)
        for state in states.values():
            by_attempt[state.attempt_count, state.expires].append(state)
        for attempt in sorted(by_attempt, key=str):
            for event in service.put_back(by_attempt[attempt], self.store):
                named = getattr(event, service.ids_field or "", None) or ()
                ids = [named] if isinstance(named, str) else named
                plan.events.append((service, event, [states.pop(id) for id in ids if id in states]))

    def _plan_dead_letters(self, states: dict[str, DocumentState], plan: RequeuePlan) -> None:
        """Requeue the dead letters of a service that cannot make the events of documents itself."""
        for state in list(states.values()):
            row, key = state.dead_letter, (state.collection, state.id)
            if row is None:
                row = next((found.row for found in self.store.find_dead_letters(document=key, limit=1)), None)
            # A dead letter that an operator archived is requeued only if an operator schedules its document.
            elif state.retry_at is None and self.store.row_states([row])[row] == RowState.ARCHIVED:
                row = None
            if row is not None:
                plan.dead_letters.setdefault(row, []).append(states.pop(state.id))
        if states:
            log.warning(
                "%d documents cannot be requeued, such as %s/%s: their event has more fields than ids, and there "
                "is no dead letter to take it from; declare their service with requeue=",
                *(len(states), *next((state.collection, state.id) for state in states.values())),
            )

    # -- publishing

    def put_back(self, plan: RequeuePlan, *, priority: int = 0) -> dict[str, int]:
        """Begin a round of every planned document; return how many each collection has."""
        back: dict[str, int] = {}

        def report(states: list[DocumentState], how: str) -> None:
            for state in states:
                back[state.collection] = back.get(state.collection, 0) + 1
                name = f"{state.collection}/{state.id}"
                log.info("%s is requeued %s", name, how, extra={"onward": {"documents": [name]}})

        for service, event, states in plan.events:
            self.store.make_pending([(state.collection, state.id) for state in states if state.status in FINAL])
            # Other programs have had this event: putting it back is no new fact.
            now, trace = self.store.now(), requeued_trace(states)
            expires_in = None if not states or states[0].expires is None else states[0].expires - now
            published = self.store.publish(
                Envelope.of(event, now=now, priority=priority, trace=trace, leaves=False, expires_in=expires_in)
            )
            if any(result.rows or result.duplicates for result in published):
                report(states, f"for {service.name}")
            else:
                log.warning(
                    "nobody takes %s yet: no worker of %s was ever started", event.event_type, service.name
                )
        for dead_letter, states in plan.dead_letters.items():
            self.store.restore_dead_letters([dead_letter])
            if self.store.requeue(dead_letter, keeps_deadline=True):
                report(states, "with its dead letter")
        return back
