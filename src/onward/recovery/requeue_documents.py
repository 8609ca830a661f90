"""Requeueing documents: makes the event that brings each to its service, outside of the transaction."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from onward.model.documents import FINAL, DocumentState
from onward.model.events import Envelope, Event
from onward.model.ledger import RowState
from onward.runtime.service import Registry, Service
from onward.runtime.tracing import requeued_trace

if TYPE_CHECKING:
    from onward.ledger.store import Store

log = logging.getLogger("onward")


@dataclass(slots=True)
class RequeuePlan:
    """The events to publish, and the documents that cannot be requeued now."""

    events: list[tuple[Service, Event, list[DocumentState]]] = field(default_factory=list)
    dead_letters: dict[int, list[DocumentState]] = field(default_factory=dict)
    """Dead letters that are requeued as they are, with their documents."""
    left: list[DocumentState] = field(default_factory=list)


class DocumentRequeue:
    """Finds the service that finishes a document, and makes its event."""

    at_once = 500
    """How many documents are requeued in one transaction."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self.store = store
        self.registry = registry

    def down(self) -> set[str]:
        """Return the dependencies that are down."""
        return {breaker.dependency for breaker in self.store.breakers() if breaker.open}

    def finishers(self, collection: str) -> list[Service]:
        services = self.registry.services.values()
        return [
            service
            for service in services
            if service.finishes is not None and service.finishes.collection == collection
        ]

    def collections(self, down: set[str]) -> list[str]:
        """Return the collections that are finished here, by services that can work now.

        Another app may have documents in the same store, and a retry job of its own.
        """
        finished = (
            service.finishes for service in self.registry.services.values() if down.isdisjoint(service.needs)
        )
        return sorted({finishes.collection for finishes in finished if finishes is not None})

    def held_up(self, state: DocumentState, down: set[str]) -> str:
        """Return the dependencies that block every service that could finish a document; empty: none."""
        needs = [down & set(service.needs) for service in self.finishers(state.collection)]
        return ", ".join(sorted(set.union(*needs))) if needs and all(needs) else ""

    # -- planning: runs code of the app, and so outside of any transaction

    def plan(self, states: Sequence[DocumentState], down: set[str]) -> RequeuePlan:
        """Return how documents are requeued."""
        plan = RequeuePlan()
        by_collection: dict[str, dict[str, DocumentState]] = {}
        for state in states:
            by_collection.setdefault(state.collection, {})[state.id] = state
        for collection, found in by_collection.items():
            for service in self.finishers(collection):
                if down.isdisjoint(service.needs) and found:
                    self._plan_for(service, found, plan)
            plan.left += found.values()
        return plan

    def _plan_for(self, service: Service, states: dict[str, DocumentState], plan: RequeuePlan) -> None:
        if not service.makes_events:
            for state in list(states.values()):
                if (dead_letter := self._dead_letter_of(state)) is not None:
                    plan.dead_letters.setdefault(dead_letter, []).append(states.pop(state.id))
            self._warn(list(states.values()))
            return
        for event in self._events(service, list(states.values())):
            plan.events.append((service, event, [states.pop(id) for id in named(service, event) if id in states]))

    def _events(self, service: Service, states: Sequence[DocumentState]) -> Iterator[Event]:
        """Make events; documents with the same attempt count share one."""
        by_attempt: dict[int, list[DocumentState]] = {}
        for state in states:
            by_attempt.setdefault(state.attempt_count, []).append(state)
        for attempt in sorted(by_attempt, key=str):
            yield from service.put_back(by_attempt[attempt], self.store)

    def _dead_letter_of(self, state: DocumentState) -> int | None:
        """Return the dead letter to requeue, for a service that cannot make the event of a document itself."""
        if state.dead_letter is None:
            found = self.store.find_dead_letters(document=(state.collection, state.id), limit=1)
            return found[0].row if found else None
        put_away = self.store.row_states([state.dead_letter])[state.dead_letter] == RowState.ARCHIVED
        # A dead letter that an operator archived is requeued only if an operator schedules its document.
        return None if put_away and state.retry_at is None else state.dead_letter

    def _warn(self, lost: Sequence[DocumentState]) -> None:
        if lost:
            log.warning(
                "%d documents cannot be requeued, such as %s/%s: their event has more fields than ids, and there "
                "is no dead letter to take it from; declare their service with requeue=",
                *(len(lost), lost[0].collection, lost[0].id),
            )

    # -- publishing

    def put_back(self, plan: RequeuePlan, *, priority: int = 0) -> dict[str, int]:
        """Begin a round of every planned document; return how many each collection has."""
        back: dict[str, int] = {}
        for service, event, states in plan.events:
            self.store.make_pending([(state.collection, state.id) for state in states if state.status in FINAL])
            published = self.store.publish(
                Envelope.of(event, now=self.store.now(), priority=priority, trace=requeued_trace(states))
            )
            if not any(result.rows or result.duplicates for result in published):
                log.warning(
                    "nobody takes %s yet: no worker of %s was ever started", event.event_type, service.name
                )
                continue
            for state in states:
                back[state.collection] = back.get(state.collection, 0) + 1
                log.info("%s/%s is requeued for %s", state.collection, state.id, service.name)
        for dead_letter, states in plan.dead_letters.items():
            self.store.restore_dead_letters([dead_letter])
            if self.store.requeue(dead_letter):
                for state in states:
                    back[state.collection] = back.get(state.collection, 0) + 1
                    log.info("%s/%s is requeued with its dead letter", state.collection, state.id)
        return back


def named(service: Service, event: Event) -> list[str]:
    """Return the ids of the documents that an event brings to a service."""
    found = getattr(event, service.ids_field or "", None)
    return [found] if isinstance(found, str) else list(found or ())
