"""Putting documents back: which event brings each to whom, made outside of the transaction that publishes it."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from onward.model.documents import FINAL, DocumentState
from onward.model.events import Envelope, Event
from onward.model.ledger import RowState
from onward.ports import Store
from onward.runtime.service import Registry, Service
from onward.runtime.tracing import resumed

log = logging.getLogger("onward")


@dataclass(slots=True)
class Plan:
    """What is to be published, and which documents nobody can put back just now."""

    events: list[tuple[Service, Event, list[DocumentState]]] = field(default_factory=list)
    letters: dict[int, list[DocumentState]] = field(default_factory=dict)
    """Dead letters that go back as they are, with their documents."""
    left: list[DocumentState] = field(default_factory=list)


class PuttingBack:
    """Knows which service finishes a document, and how its event is made."""

    at_once = 500
    """How many documents are put back in one transaction."""

    def __init__(self, store: Store, registry: Registry) -> None:
        self.store = store
        self.registry = registry

    def down(self) -> set[str]:
        """The dependencies that are down."""
        return {one.dependency for one in self.store.breakers() if one.open}

    def finishers(self, collection: str) -> list[Service]:
        services = self.registry.services.values()
        return [one for one in services if one.finishes is not None and one.finishes.collection == collection]

    def collections(self, down: set[str]) -> list[str]:
        """What is finished here, by services that can work just now.

        Another app may have documents in the same store, and a retry job of its own.
        """
        able = (one.finishes for one in self.registry.services.values() if down.isdisjoint(one.needs))
        return sorted({one.collection for one in able if one is not None})

    def held_up(self, state: DocumentState, down: set[str]) -> str:
        """What keeps every service that could finish a document from working; empty: nothing."""
        needs = [down & set(one.needs) for one in self.finishers(state.collection)]
        return ", ".join(sorted(set.union(*needs))) if needs and all(needs) else ""

    # -- planning: runs code of the app, and so holds nothing up

    def plan(self, states: Sequence[DocumentState], down: set[str]) -> Plan:
        """Find out how documents are put back."""
        plan = Plan()
        by_collection: dict[str, dict[str, DocumentState]] = {}
        for state in states:
            by_collection.setdefault(state.collection, {})[state.id] = state
        for collection, found in by_collection.items():
            for service in self.finishers(collection):
                if down.isdisjoint(service.needs) and found:
                    self._plan_for(service, found, plan)
            plan.left += found.values()
        return plan

    def _plan_for(self, service: Service, states: dict[str, DocumentState], plan: Plan) -> None:
        if not service.makes_events:
            for state in list(states.values()):
                if (letter := self._letter_of(state)) is not None:
                    plan.letters.setdefault(letter, []).append(states.pop(state.id))
            self._warn(list(states.values()))
            return
        for event in self._events(service, list(states.values())):
            plan.events.append((service, event, [states.pop(id) for id in named(service, event) if id in states]))

    def _events(self, service: Service, states: Sequence[DocumentState]) -> Iterator[Event]:
        """Make events, those of the same attempt together."""
        by_attempt: dict[int, list[DocumentState]] = {}
        for state in states:
            by_attempt.setdefault(state.attempt_count, []).append(state)
        for attempt in sorted(by_attempt, key=str):
            yield from service.put_back(by_attempt[attempt], self.store)

    def _letter_of(self, state: DocumentState) -> int | None:
        """The dead letter that may go back: where nobody can make the event of a document, the one that failed."""
        if state.dead_letter is None:
            found = self.store.find_dead_letters(document=(state.collection, state.id), limit=1)
            return found[0].row if found else None
        put_away = self.store.row_states([state.dead_letter])[state.dead_letter] == RowState.ARCHIVED
        # What an operator has put away comes back only if an operator wants it to.
        return None if put_away and state.retry_at is None else state.dead_letter

    def _warn(self, lost: Sequence[DocumentState]) -> None:
        if lost:
            log.warning(
                "%d documents cannot be put back, %s/%s for one: their event has more fields than ids, and there "
                "is no dead letter to take it from; declare their service with requeue=",
                *(len(lost), lost[0].collection, lost[0].id),
            )

    # -- publishing

    def put_back(self, plan: Plan, *, priority: int = 0) -> dict[str, int]:
        """Begin a round of all that is planned; answer how many documents of each collection those are."""
        back: dict[str, int] = {}
        for service, event, states in plan.events:
            self.store.revive([(one.collection, one.id) for one in states if one.status in FINAL])
            published = self.store.publish(
                Envelope.of(event, now=self.store.now(), priority=priority, trace=resumed(states))
            )
            if not any(one.rows or one.duplicates for one in published):
                log.warning(
                    "nobody takes %s yet: no worker of %s was ever started", event.event_type, service.name
                )
                continue
            for state in states:
                back[state.collection] = back.get(state.collection, 0) + 1
                log.info("%s/%s is put back for %s", state.collection, state.id, service.name)
        for letter, states in plan.letters.items():
            self.store.restore_letters([letter])
            if self.store.requeue(letter):
                for state in states:
                    back[state.collection] = back.get(state.collection, 0) + 1
                    log.info("%s/%s is put back with its dead letter", state.collection, state.id)
        return back


def named(service: Service, event: Event) -> list[str]:
    """The documents that an event brings to a service."""
    found = getattr(event, service.ids_field or "", None)
    return [found] if isinstance(found, str) else list(found or ())
