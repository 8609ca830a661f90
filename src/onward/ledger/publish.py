"""Putting events on the ledger: routing, deduplication, counting of rounds."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from onward.ledger.records import DocumentRecord
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey, Status
from onward.model.events import Envelope, idempotency_key
from onward.model.ledger import PerKey, Published, RowState, Subscription
from onward.retry.iso_time import iso_time

OUTBOX = ""  # Stands for the gateway among the services that a commit wakes
_NO_SERVICE = Subscription("", "")


@dataclass(slots=True)
class _RoutedEvent:
    """An event for one service, before it is known whether the same event is waiting already."""

    position: int
    envelope: Envelope
    subscription: Subscription
    ids: list[str]
    source: str | None = None
    key: str = ""
    row: int = 0  # The ledger row that it got

    def documents(self, unit: UnitOfWork) -> list[tuple[str, DocumentRecord | None]]:
        collection = self.subscription.finishes
        return [(id, unit.docs[collection, id]) for id in self.ids] if collection else []


@dataclass(slots=True)
class _WaitingRow:
    """A waiting row with the key of an event that is to be published."""

    row: int
    expires: float | None
    due: float
    priority: int
    untried: bool  # It was never claimed: its due time is that of its publication, or of an operator


def publish(unit: UnitOfWork, envelopes: Sequence[Envelope]) -> list[Published]:
    """Put events on the ledger, one row per consuming service."""
    consumers: dict[str, list[Subscription]] = {}
    for subscription in unit.subscriptions():
        consumers.setdefault(subscription.event_type, []).append(subscription)
    events: list[_RoutedEvent] = []
    rows = [0] * len(envelopes)
    duplicates = [0] * len(envelopes)
    unrouted: dict[int, _RoutedEvent] = {}
    new = remember_foreign_events(unit, [envelope.event_id for envelope in envelopes if envelope.foreign])
    for position, envelope in enumerate(envelopes):
        if envelope.foreign:
            if envelope.event_id not in new:
                duplicates[position] += 1
                continue
            new.remove(envelope.event_id)  # the same id again in these events is a duplicate
        wanted = consumers.get(envelope.event_type, ())
        if not wanted and not envelope.notice:
            unrouted[position] = _RoutedEvent(
                position, envelope, _NO_SERVICE, [], envelope.source, envelope.event_id
            )
        events += [_RoutedEvent(position, envelope, consumer, _ids(envelope, consumer)) for consumer in wanted]
    events = _by_source(unit, events)
    for event in _insert_new(unit, events, duplicates):
        rows[event.position] += 1
    _insert(unit, list(unrouted.values()), RowState.UNROUTED)
    if unit.outgoing:
        _put_into_outbox(unit, envelopes, events)
    return [
        Published(envelope.event_id, rows[position], duplicates[position], position in unrouted)
        for position, envelope in enumerate(envelopes)
    ]


def _put_into_outbox(unit: UnitOfWork, envelopes: Sequence[Envelope], events: Sequence[_RoutedEvent]) -> None:
    """Store the messages of the events that leave for other programs."""
    routed = {event.position: event for event in reversed(events)}  # the first consumer's, if there are several
    rows = []
    for position, envelope in enumerate(envelopes):
        if envelope in unit.outgoing:
            event = routed.get(position)
            documents = [doc for _, doc in event.documents(unit) if doc is not None] if event else []
            body: dict[str, Any] = {
                "event_type": envelope.event_type,
                "event_id": envelope.event_id,
                "timestamp": iso_time(envelope.timestamp),
                "version": f"{envelope.version}.0",  # other programs know it as text
                "round": max((doc.round for doc in documents), default=0),
                "attempt": max((doc.attempt_count for doc in documents), default=0),
                "idempotency_key": event.key if event else idempotency_key(envelope.event_type, envelope.data),
            }
            if envelope.trace is not None:
                body["trace"] = envelope.trace
            # The data are JSON already.
            text = f'{json.dumps(body, separators=(",", ":"))[:-1]},"data":{envelope.data}}}'
            due = unit.now + envelope.due_in
            rows.append((envelope.event_id, envelope.routing_key, text, due, due))
    if rows:
        unit.db.bulk("insert_outgoing", rows)
        unit.woken.add(OUTBOX)


def enter_event(unit: UnitOfWork, envelope: Envelope, service: str) -> list[tuple[int, list[DocumentKey]]]:
    """Put an event on the ledger for a service, or for all its consumers if the name is empty.

    Return its rows, each with its documents. An event that is waiting already gets none.
    """
    remember_foreign_events(unit, [envelope.event_id])
    consumers = [one for one in unit.subscriptions() if one.event_type == envelope.event_type]
    wanted = [one for one in consumers if service in ("", one.service)]
    events = [_RoutedEvent(0, envelope, consumer, _ids(envelope, consumer)) for consumer in wanted]
    if not events:
        unrouted = _RoutedEvent(0, envelope, _NO_SERVICE, [], envelope.source, envelope.event_id)
        _insert(unit, [unrouted], RowState.UNROUTED)
    return [
        (event.row, [(event.subscription.finishes, id) for id in event.ids] if event.subscription.finishes else [])
        for event in _insert_new(unit, _by_source(unit, events), [0])
    ]


def remember_foreign_events(unit: UnitOfWork, ids: Sequence[str]) -> set[str]:
    """Remember ids of other programs' events; return those that were not known.

    Of two transactions with the same id, the second waits for the first. They sort them, so that no two
    wait for each other.
    """
    if not ids:
        return set()
    return {id for (id,) in unit.db.fetch("remember_foreign_events", unit.now, sorted(set(ids)))}


def _ids(envelope: Envelope, subscription: Subscription) -> list[str]:
    if subscription.ids_field is None:
        return []
    named = json.loads(envelope.data).get(subscription.ids_field)
    found = [named] if isinstance(named, str) else named if isinstance(named, list) else []
    return list(dict.fromkeys(id for id in found if isinstance(id, str)))


def _by_source(unit: UnitOfWork, events: list[_RoutedEvent]) -> list[_RoutedEvent]:
    """Split events by source: a row belongs to one source, so that forgetting it touches no other.

    For a service that runs one at a time for each key, they are split by document, too.
    """
    unit.read_documents(
        (event.subscription.finishes, id) for event in events if event.subscription.finishes for id in event.ids
    )
    divided: list[_RoutedEvent] = []
    for event in events:
        by_source: dict[str | None, list[str]] = {}
        for id, doc in event.documents(unit):
            by_source.setdefault((doc and doc.source) or event.envelope.source, []).append(id)
        for source, ids in (by_source or {event.envelope.source: event.ids}).items():
            # Each document has a key of its own.
            parts = [[id] for id in ids] if event.subscription.per_key and ids else [ids]
            divided += [replace(event, ids=part, source=source) for part in parts]
    return divided


def _insert_new(unit: UnitOfWork, events: list[_RoutedEvent], duplicates: list[int]) -> list[_RoutedEvent]:
    """Insert rows for the events that are not waiting already; return those events."""
    keys: dict[str, list[str]] = {}
    for event in events:
        envelope, subscription = event.envelope, event.subscription
        revisions = [(id, doc.revision if doc else 0) for id, doc in event.documents(unit)]
        event.key = idempotency_key(envelope.event_type, envelope.data, revisions, subscription.naming)
        keys.setdefault(subscription.service, []).append(event.key)
    waiting: dict[tuple[str, str], _WaitingRow | _RoutedEvent] = {}
    for service, many in keys.items():
        for key, *found in unit.db.read("waiting_keys", service, many):
            waiting[service, key] = _WaitingRow(*found)
    unit.read_generations(event.source for event in events)
    fresh: list[_RoutedEvent] = []
    for event in events:
        identity = (event.subscription.service, event.key)
        twin = waiting.get(identity)
        if isinstance(twin, _RoutedEvent):
            duplicates[event.position] += 1
            _merge_new(twin, event.envelope)
            continue
        if twin is not None and _covers(unit, twin.row, event):
            duplicates[event.position] += 1
            _extend_deadline(unit, twin, event)
            _bring_forward(unit, twin, event)
            continue
        if twin is not None:
            unit.db.send("free_key", twin.row)  # for the new row, which asks for more
            if (row := unit.rows.get(twin.row)) is not None:
                row.key += f"/{twin.row}"
        waiting[identity] = event
        fresh.append(event)
        unit.woken.add(event.subscription.service)
    _insert(unit, fresh, RowState.WAITING)
    return fresh


def _insert(unit: UnitOfWork, events: Sequence[_RoutedEvent], state: RowState) -> None:
    rows: dict[bool, list[tuple[Any, ...]]] = {False: [], True: []}
    for event in events:
        row, envelope = _row(unit, event, state), event.envelope
        kept = envelope.raw is not None
        rows[kept].append((*row, envelope.raw, envelope.properties) if kept else row)
    for kept, statement in ((False, "insert_rows"), (True, "insert_rows_with_raw")):
        if rows[kept]:
            unit.db.bulk(statement, rows[kept])


def _covers(unit: UnitOfWork, waiting_row: int, event: _RoutedEvent) -> bool:
    """Return whether a waiting row covers all documents of an event; one that was reset is not covered."""
    if event.subscription.finishes is None:
        # A row with a checkpoint does not process again what is before it.
        row = unit.row(waiting_row)
        return row is None or row.cursor is None
    return all(doc is None or doc.final or doc.row == waiting_row for _, doc in event.documents(unit))


def later_deadline(one: float | None, other: float | None) -> float | None:
    """Return the later of two deadlines; no deadline is later than any."""
    return None if one is None or other is None else max(one, other)


def _merge_new(event: _RoutedEvent, same: Envelope) -> None:
    """Give a new event what a duplicate among the events of the same call asks for."""
    one = event.envelope
    expires_in = later_deadline(one.expires_in, same.expires_in)
    due_in, priority = min(one.due_in, same.due_in), max(one.priority, same.priority)
    if event.subscription.per_key == PerKey.ORDERED:
        due_in, priority = one.due_in, one.priority
    if (expires_in, due_in, priority) != (one.expires_in, one.due_in, one.priority):
        event.envelope = replace(one, expires_in=expires_in, due_in=due_in, priority=priority)


def _bring_forward(unit: UnitOfWork, twin: _WaitingRow, event: _RoutedEvent) -> None:
    """Give a waiting row the due time of an event that it covers, if that is earlier, and the higher priority.

    What was tried keeps the time of its next try, and what an operator has scheduled keeps that time. The order of
    publication is kept, too: the row stays where it is.
    """
    if not twin.untried or event.subscription.per_key == PerKey.ORDERED:
        return
    own = [doc for _, doc in event.documents(unit) if doc is not None and doc.row == twin.row]
    if any(doc.retry_at is not None for doc in own):
        return
    due = min(twin.due, unit.now + event.envelope.due_in)
    priority = max(twin.priority, event.envelope.priority)
    if (due, priority) == (twin.due, twin.priority):
        return
    twin.due, twin.priority = due, priority
    unit.db.send("reschedule_row", due, priority, twin.row)
    if (row := unit.rows.get(twin.row)) is not None:
        row.due, row.priority = due, priority
    unit.woken.add(event.subscription.service)
    if due < unit.now:
        unit.returned.add(event.subscription.service)  # workers may look at later rows of this priority only


def _extend_deadline(unit: UnitOfWork, twin: _WaitingRow, event: _RoutedEvent) -> None:
    """Give a waiting row the deadline of an event that it covers, if that is later."""
    later = later_deadline(twin.expires, _deadline(unit, event.envelope))
    if later == twin.expires:
        return
    twin.expires = later
    unit.db.send("set_deadline", later, twin.row)
    if (row := unit.rows.get(twin.row)) is not None:
        row.expires = later
    for id, doc in event.documents(unit):
        if doc is not None and doc.row == twin.row:
            doc.expires = later
            unit.change((str(event.subscription.finishes), id))


def _deadline(unit: UnitOfWork, envelope: Envelope) -> float | None:
    return None if envelope.expires_in is None else unit.now + envelope.expires_in


def _row(unit: UnitOfWork, event: _RoutedEvent, state: RowState) -> tuple[Any, ...]:
    """Return the columns of a new row, and begin the round of its documents."""
    event.row = row = unit.db.reserve("ledger")
    service, collection = event.subscription.service, event.subscription.finishes
    envelope, source = event.envelope, event.source
    priority, round, expires = envelope.priority, 0, _deadline(unit, envelope)
    named: list[tuple[str, int]] = []
    for id, doc in event.documents(unit):
        if doc is None:
            named.append((id, 0))
            continue
        if priority >= 0 or doc.priority > 0:
            # A background retry stays in the background, unless an operator has raised a document's priority.
            priority = max(priority, doc.priority)
        if not doc.final:
            begin_round(doc, row, unit.now, expires)
            unit.change((str(collection), id))
            round = max(round, doc.round)
        named.append((id, max(1, doc.round)))
    content = (envelope.event_id, envelope.event_type, envelope.version, envelope.data, envelope.timestamp)
    now = unit.now
    if event.subscription.per_key == PerKey.ORDERED:
        priority, now = 0, unit.published_at()  # the order of publication comes first
    place = (round, priority, now + envelope.due_in, expires, source, unit.generation(source))
    return (row, service, str(state), *content, envelope.trace, event.key, collection, json.dumps(named), *place)


def begin_round(doc: DocumentRecord, row: int, now: float, expires: float | None) -> None:
    """Begin a document's next round, with the deadline of its row. Rounds are counted only here."""
    doc.status = Status.PENDING
    doc.round += 1
    doc.attempt_count += 1
    doc.last_attempt_time = now
    doc.retry_at = None
    doc.expires = expires
    doc.row = row


def route_unrouted(unit: UnitOfWork, event_type: str) -> None:
    """Route the stored events of a type that had no consumer when they were published."""
    waiting = unit.db.read("unrouted", event_type)
    if not waiting:
        return
    envelopes = []
    # In the order of due times: ids of different processes do not follow it, and services may promise it.
    waiting.sort(key=lambda values: (values[10], values[0]))
    for _, event_id, kind, version, data, timestamp, trace, source, generation, priority, due, *more in waiting:
        if generation == unit.generation(source):
            place = (trace, source, priority, max(0.0, due - unit.now))
            expires, hexadecimal, properties = more
            raw = None if hexadecimal is None else bytes.fromhex(hexadecimal)
            found = Envelope(kind, data, event_id, timestamp, version, *place, raw=raw, properties=properties)
            found.expires_in = None if expires is None else expires - unit.now
            envelopes.append(found)
    unit.db.send("delete_rows", [row[0] for row in waiting])
    publish(unit, envelopes)
