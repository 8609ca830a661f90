"""Subscriptions of services, renamed and retired services, and the workers that run them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import accumulate
from typing import Any

from onward.ledger import publish
from onward.ledger.settle import settle
from onward.ledger.store_errors import ServiceConflict
from onward.ledger.transactions import TransactionalStore, transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.failures import Failure
from onward.model.ledger import MAX_COMMIT_DOCUMENTS, DeadLettered, Settlement, Subscription
from onward.retry import OnwardError, Reason

MAX_VERSIONS = 200  # Versions of workers that are kept, those that were seen last
MAX_RETIRED_ROWS = 100  # Events of a retired service that one transaction gives up


class ServiceRetired(OnwardError):
    """A person has retired the service that an event waited for."""


class Subscriptions(TransactionalStore):
    def subscriptions(self) -> list[Subscription]:
        return UnitOfWork(self.db, self.now()).subscriptions()

    def subscribe(self, subscriptions: Sequence[Subscription]) -> None:
        """Store subscriptions, and route the stored events that had no consumer.

        A service takes over the rows, dead letters and failed batches of the names in `was`, as soon as no worker
        that runs one of them is alive; until then it is not stored. Raises `ServiceConflict` if another service
        finishes the same documents on the same event, or a name in `was` has another event or collection.
        """
        if self._to_subscribe(subscriptions):  # without changes there is no need to wait for other transactions
            self.atomically(lambda: self._subscribe(subscriptions), alone=True)

    def _to_subscribe(self, subscriptions: Sequence[Subscription]) -> list[Subscription]:
        """Return those that are new, without those whose former name a worker still runs."""
        stored = {subscription.service: subscription for subscription in self.subscriptions()}
        new = [subscription for subscription in subscriptions if _is_new(subscription, stored)]
        for subscription in new:
            _check(subscription, stored)
        served = {name for worker in self.workers() for name in worker.get("services", ())} if new else set()
        return [subscription for subscription in new if served.isdisjoint(subscription.was)]

    @transactional
    def _subscribe(self, unit: UnitOfWork, subscriptions: Sequence[Subscription]) -> None:
        new = self._to_subscribe(subscriptions)
        for subscription in new:
            for former in subscription.was:
                unit.db.send("unsubscribe", former)
                unit.db.send("rename_rows", subscription.service, former)
                unit.db.send("rename_batches", subscription.service, former)
                unit.db.send("rename_keys", subscription.service, former)
                unit.db.send("drop_keys_of_service", former)
                unit.returned.add(subscription.service)
            columns = (json.dumps(value) if isinstance(value, tuple) else value for value in astuple(subscription))
            unit.db.send("subscribe", *columns)
            unit.woken.add(subscription.service)
        for event_type in {subscription.event_type for subscription in new}:
            publish.route_unrouted(unit, event_type)

    def retire_service(self, service: str) -> int:
        """Remove a service's subscription, and make its rows dead letters; return how many.

        Their documents stay `pending`, and leave their failed batch. Stopped halfway, the same call goes on.
        """
        # First, and alone: nothing that is published later is routed to it.
        self.atomically(lambda: self.db.send("unsubscribe", service), alone=True)
        retired = 0
        while some := self._give_up_some(service):
            retired += some
        while self._release_some(service):
            pass
        return retired

    @transactional
    def _give_up_some(self, unit: UnitOfWork, service: str) -> int:
        """Make dead letters of some rows that wait or are claimed; return how many."""
        unit.read_rows(unit.db.read("unsettled_rows", service, MAX_RETIRED_ROWS))
        documents = accumulate(len(row.ids) if row is not None else 0 for row in unit.rows.values())
        rows = list(unit.rows)[: max(1, sum(number <= MAX_COMMIT_DOCUMENTS for number in documents))]
        if not rows:
            return 0
        # A new token: the settlement of a worker that still holds a row is refused.
        unit.db.send("claim_rows", "", rows)
        unit.rows.clear()
        unit.read_rows(rows)
        error = ServiceRetired(f"the service {service!r} was retired, and nobody runs it any more")
        failure = Failure.of(error, at=unit.now, service=service)
        dead = DeadLettered(reason=Reason.SERVICE_RETIRED, failure=failure, final=False)
        found = [row for row in unit.rows.values() if row is not None]
        settle(unit, [Settlement(row.id, row.token, row.collection, parts=[dead]) for row in found])
        return len(rows)

    @transactional
    def _release_some(self, unit: UnitOfWork, service: str) -> int:
        """Take some documents of the service out of their failed batch; return how many."""
        found = unit.db.read("items_of_service", service, MAX_COMMIT_DOCUMENTS)
        keys = [(collection, id) for collection, id in found]
        unit.read_documents(keys)
        for key in keys:
            if (doc := unit.docs[key]) is not None:
                unit.leave_batch(doc)
                unit.change(key)
        return len(keys)

    @transactional
    def register_worker(self, unit: UnitOfWork, worker: str, about: Mapping[str, Any]) -> None:
        """Register a worker with its host, process, version, and event versions by service."""
        unit.db.send("register_worker", worker, json.dumps(dict(about)), unit.now)
        if version := about.get("version"):
            unit.db.send("see_version", version, unit.now)
            unit.db.send("prune_versions", MAX_VERSIONS)
            unit.db.send("prune_successes")

    @transactional
    def unregister_worker(self, unit: UnitOfWork, worker: str) -> None:
        unit.db.send("keep_last_served", worker, None)
        unit.db.send("unregister_worker", worker)
        # The lease ends, but stays known: a commit whose reply was lost may still claim rows.
        unit.db.send("end_lease", unit.now, worker)

    def workers(self, alive_within: float = 90.0) -> list[dict[str, Any]]:
        """Return the workers that were seen within this time, in seconds."""
        found = self.db.read("workers", self.now() - alive_within)
        return [{"worker": worker, "last_seen": seen, **about} for worker, about, seen in found]

    def last_served(self) -> dict[str, float]:
        """Return when a worker of each service was last seen; a service that no worker has run is left out."""
        return dict(self.db.read("last_served"))


def _is_new(new: Subscription, stored: Mapping[str, Subscription]) -> bool:
    present = stored.get(new.service)
    if present is not None:
        # During an upgrade both releases run: the older one must not undo what the newer one has stored.
        return present != new and new.version >= present.version
    # A release from before a rename subscribes under the former name.
    others = [other for other in stored.values() if other.service not in new.was]
    return not any(new.service in other.was and _consume_the_same(new, other) for other in others)


def _check(new: Subscription, stored: Mapping[str, Subscription]) -> None:
    for former in (stored[name] for name in new.was if name in stored):
        if not _consume_the_same(new, former):
            raise ServiceConflict(
                f"service {new.service!r} is declared with was={former.service!r}, which has another event or "
                f"collection ({_described(former)}, not {_described(new)}): its events cannot be taken over. Let "
                f"{former.service!r} finish its events, then retire it: onward services retire {former.service}"
            )
    for other in stored.values():
        if other.service in (new.service, *new.was) or new.finishes is None or not _consume_the_same(new, other):
            continue
        raise ServiceConflict(
            f"services {new.service!r} and {other.service!r} both finish {new.finishes} on {new.event_type}, and "
            f"a document is one service's responsibility. If {other.service!r} was renamed, declare "
            f"{new.service!r} with was={other.service!r}; if it was removed, retire it: "
            f"onward services retire {other.service}"
        )


def _consume_the_same(new: Subscription, other: Subscription) -> bool:
    return (new.event_type, new.finishes) == (other.event_type, other.finishes)


def _described(subscription: Subscription) -> str:
    event_type, finishes = subscription.event_type, subscription.finishes
    return f"{event_type} for {finishes}" if finishes else event_type
