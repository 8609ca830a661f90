"""The cast of the store's tests: pages that a service reads, and a clock that stands still."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.ledger.store import Store
from onward.model.documents import Document, DocumentState
from onward.model.events import Envelope, Event, names
from onward.model.failures import Failure
from onward.model.ledger import (
    CommitResult,
    Delivery,
    InputStatus,
    NewDocument,
    Published,
    Settlement,
    SettlementPart,
    Subscription,
)

NOON = 1_800_000_000.0
LEASE = 60.0


class Clock:
    """Time that a test advances by hand."""

    def __init__(self, now: float = NOON) -> None:
        self.time = now

    def now(self) -> float:
        return self.time

    def advance(self, seconds: float) -> None:
        self.time += seconds


class Page(Document):
    text: str = ""


class Word(Document):
    text: str = ""


class PagesFound(Event):
    page_ids: list[str] = names(Page)
    found_by: str = ""


class Noticed(Event):
    what: str = ""


READING = Subscription(
    "reading",
    "PagesFound",
    finishes="pages",
    ids_field="page_ids",
    naming=("page_ids",),
    failed_queue="reading.failed",
)
LISTENING = Subscription("listening", "Noticed", failed_queue="listening.failed")


def page(id: str, text: str = "", **more: Any) -> NewDocument:
    return NewDocument("pages", id, Page(id=id, text=text).to_json(), **more)


def word(id: str, **more: Any) -> NewDocument:
    return NewDocument("words", id, Word(id=id).to_json(), **more)


def failure(message: str = "it broke", at: float = NOON) -> Failure:
    return Failure(at=at, error_type="ValueError", message=message, fingerprint="f00d")


def settlement(delivery: Delivery, *parts: SettlementPart, **more: Any) -> Settlement:
    """What a work of all the delivery's readable documents makes true."""
    ready = [(one.id, one.revision) for one in delivery.inputs if one.status is InputStatus.READY]
    return Settlement(
        delivery.row, delivery.token, delivery.collection, **{"inputs": ready, "parts": parts} | more
    )


class Stage:
    """A store with the usual subscriptions, and short ways to say the usual things."""

    def __init__(self, store: Store, clock: Clock, *, subscribe: bool = True) -> None:
        self.store = store
        self.clock = clock
        if subscribe:
            store.subscribe([READING, LISTENING])

    def found(self, *ids: str, found_by: str = "", **more: Any) -> Envelope:
        (envelope,) = Envelope.of(PagesFound(page_ids=list(ids), found_by=found_by), now=self.store.now(), **more)
        return envelope

    def noticed(self, what: str = "", **more: Any) -> Envelope:
        (envelope,) = Envelope.of(Noticed(what=what), now=self.store.now(), **more)
        return envelope

    def publish(self, *ids: str, **more: Any) -> Published:
        """Announce pages."""
        (published,) = self.store.publish([self.found(*ids, **more)])
        return published

    def bring(self, *ids: str, **more: Any) -> None:
        """Write pages and announce them with one event."""
        self.store.add_documents([page(id, **more) for id in ids])
        self.publish(*ids)

    def claim(self, limit: int = 100, *, worker: str = "anna", **more: Any) -> list[Delivery]:
        return self.store.claim(
            worker, more.pop("service", "reading"), limit=limit, lease=more.pop("lease", LEASE), **more
        )

    def take(self, **more: Any) -> Delivery:
        """Claim the one delivery that is due."""
        (delivery,) = self.claim(**more)
        return delivery

    def settle(self, delivery: Delivery, *parts: SettlementPart, **more: Any) -> CommitResult:
        (settled,) = self.store.settle([settlement(delivery, *parts, **more)])
        return settled

    def state(self, id: str, collection: str = "pages") -> DocumentState:
        state = self.store.state(collection, id)
        assert state is not None, f"{collection}/{id} should exist"
        return state

    def text(self, id: str) -> str:
        found = self.store.get(Page, id)
        assert found is not None, f"page {id} should exist"
        return found.text

    def rows(self, state: str, service: str = "reading") -> int:
        return self.store.counts().get(service, {}).get(state, 0)


def ids(deliveries: Sequence[Delivery]) -> list[list[str]]:
    """Which documents each delivery brings."""
    return [[one.id for one in delivery.inputs] for delivery in deliveries]


def standings(delivery: Delivery) -> dict[str, str]:
    return {one.id: str(one.status) for one in delivery.inputs}
