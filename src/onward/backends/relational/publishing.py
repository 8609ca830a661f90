"""Putting events on the ledger: routed, deduplicated, and counted as rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onward.backends.relational.books import Books, Doc
from onward.model.documents import Status
from onward.model.events import Envelope, idempotency_key, new_id
from onward.model.failures import Failure, remember
from onward.model.ledger import Published, RowState, Subscription


@dataclass(slots=True)
class _Order:
    """One event for one service, before it is known whether it waits already."""

    position: int
    envelope: Envelope
    subscription: Subscription
    ids: list[str]
    source: str | None = None
    key: str = ""


def publish(books: Books, envelopes: Sequence[Envelope]) -> list[Published]:
    """Put events on the ledger, one row per consuming service."""
    consumers: dict[str, list[Subscription]] = {}
    for subscription in books.subscriptions():
        consumers.setdefault(subscription.event_type, []).append(subscription)
    orders: list[_Order] = []
    rows = [0] * len(envelopes)
    duplicates = [0] * len(envelopes)
    unrouted: list[int] = []
    foreign: set[str] = set()
    for position, envelope in enumerate(envelopes):
        if envelope.foreign:
            if envelope.event_id in foreign or not _is_new(books, envelope.event_id):
                duplicates[position] += 1
                continue
            foreign.add(envelope.event_id)
        wanted = consumers.get(envelope.event_type, ())
        if not wanted and not envelope.notice:
            unrouted.append(position)
        orders += [_Order(position, envelope, one, _ids(envelope, one)) for one in wanted]
    for order in _without_twins(books, _by_source(books, orders), duplicates):
        rows[order.position] += 1
    _keep_unrouted(books, [envelopes[position] for position in unrouted])
    return [
        Published(envelope.event_id, rows[position], duplicates[position], position in unrouted)
        for position, envelope in enumerate(envelopes)
    ]


def _is_new(books: Books, event_id: str) -> bool:
    """Whether nobody has heard of a stranger's event; from now on somebody has, for a day."""
    if books.db.read("known_event", event_id):
        return False
    return books.db.run("meet_stranger", event_id, books.now) > 0


def _ids(envelope: Envelope, subscription: Subscription) -> list[str]:
    if subscription.ids_field is None:
        return []
    named = json.loads(envelope.data).get(subscription.ids_field)
    found = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    return list(dict.fromkeys(one for one in found if isinstance(one, str)))


def _by_source(books: Books, orders: list[_Order]) -> list[_Order]:
    """A row belongs to one source, so that forgetting one takes nothing from another."""
    books.read_documents(
        (order.subscription.finishes, id) for order in orders if order.subscription.finishes for id in order.ids
    )
    divided: list[_Order] = []
    for order in orders:
        by_source: dict[str | None, list[str]] = {}
        for id, doc in _documents(books, order):
            by_source.setdefault((doc and doc.source) or order.envelope.source, []).append(id)
        for source, ids in (by_source or {order.envelope.source: order.ids}).items():
            divided.append(replace(order, ids=ids, source=source))
    return divided


def _without_twins(books: Books, orders: list[_Order], duplicates: list[int]) -> list[_Order]:
    """Put the orders that do not wait already; answer which those were."""
    keys: dict[str, list[str]] = {}
    for order in orders:
        named = _documents(books, order)
        order.key = idempotency_key(
            order.envelope.event_type,
            order.envelope.data,
            [(id, doc.revision if doc else 0) for id, doc in named],
            order.subscription.naming,
        )
        keys.setdefault(order.subscription.service, []).append(order.key)
    waiting: dict[tuple[str, str], int | None] = {
        (service, key): row
        for service, many in keys.items()
        for key, row in books.db.read("waiting_keys", service, many)
    }
    books.read_generations(order.source for order in orders)
    fresh: list[_Order] = []
    for order in orders:
        identity = (order.subscription.service, order.key)
        twin = waiting.get(identity)
        if identity in waiting and (twin is None or _carries(books, twin, order)):
            duplicates[order.position] += 1
            continue
        if twin is not None:
            books.free_key(twin)
        waiting[identity] = None
        fresh.append(order)
    if fresh:
        books.db.bulk("insert_rows", [_row(books, order, books.db.reserve("ledger")) for order in fresh])
        books.woken.update(order.subscription.service for order in fresh)
    return fresh


def _carries(books: Books, twin: int, order: _Order) -> bool:
    """Whether a waiting row will bring all this order is about; not what was reset meanwhile, say."""
    if order.subscription.finishes is None:
        # One that goes on from a checkpoint will not look again at what lies before that.
        row = books.row(twin)
        return row is None or row.cursor is None
    return all(doc is None or doc.final or doc.row == twin for _, doc in _documents(books, order))


def _documents(books: Books, order: _Order) -> list[tuple[str, Doc | None]]:
    collection = order.subscription.finishes
    return [(id, books.docs[collection, id]) for id in order.ids] if collection else []


def _row(books: Books, order: _Order, row: int) -> tuple[Any, ...]:
    envelope, collection = order.envelope, order.subscription.finishes
    priority, round = envelope.priority, 0
    named: list[tuple[str, int]] = []
    for id, doc in _documents(books, order):
        if doc is None:
            named.append((id, 0))
            continue
        if priority >= 0 or doc.priority > 0:
            # What is put back in the background stays there, unless a person wants a document first.
            priority = max(priority, doc.priority)
        if not doc.final:
            begin_round(doc, row, books.now)
            books.change((str(collection), id))
            round = max(round, doc.round)
        named.append((id, max(1, doc.round)))
    return (
        row,
        order.subscription.service,
        str(RowState.WAITING),
        envelope.event_id,
        envelope.event_type,
        envelope.version,
        envelope.data,
        envelope.timestamp,
        envelope.trace,
        order.key,
        collection,
        json.dumps(named),
        round,
        priority,
        books.now + envelope.due_in,
        order.source,
        books.generation(order.source),
        books.unannounced,
    )


def begin_round(doc: Doc, row: int, now: float) -> None:
    """The one place where rounds are counted."""
    doc.status = Status.PENDING
    doc.round += 1
    doc.attempt_count += 1
    doc.last_attempt_time = now
    doc.retry_at = None
    doc.row = row


def _keep_unrouted(books: Books, envelopes: Sequence[Envelope]) -> None:
    if not envelopes:
        return
    books.db.bulk(
        "insert_rows",
        [
            (
                books.db.reserve("ledger"),
                "",
                str(RowState.UNROUTED),
                envelope.event_id,
                envelope.event_type,
                envelope.version,
                envelope.data,
                envelope.timestamp,
                envelope.trace,
                envelope.event_id,
                None,
                "[]",
                0,
                envelope.priority,
                books.now + envelope.due_in,
                envelope.source,
                books.generation(envelope.source),
                books.unannounced,
            )
            for envelope in envelopes
        ],
    )


def route_unrouted(books: Books, event_type: str) -> None:
    """Events of a type that had no consumer have one now."""
    waiting = books.db.read("unrouted", event_type)
    if not waiting:
        return
    envelopes = []
    for _, event_id, kind, version, data, timestamp, trace, source, generation, priority, due in waiting:
        if generation == books.generation(source):
            due_in = max(0.0, due - books.now)
            envelopes.append(Envelope(kind, data, event_id, timestamp, version, trace, source, priority, due_in))
    books.db.send("delete_rows", [row[0] for row in waiting])
    publish(books, envelopes)


def keep_malformed(books: Books, raw: bytes, failure: Failure, event_type: str) -> None:
    """A dead letter with its bytes for each service the event was for; else under no service."""
    services = [one.service for one in books.subscriptions() if one.event_type == event_type] or [""]
    errors = json.dumps(remember(None, failure.as_dict()))
    for service in services:
        id = new_id()
        row, now, told = books.db.reserve("ledger"), books.now, books.unannounced
        books.db.send(
            "insert_malformed",
            *(row, service, id, event_type, now, id, now, errors, raw, now, failure.fingerprint, told),
        )
        books.note(service, None, failure, 1)
    books.write()
