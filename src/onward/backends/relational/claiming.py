"""Claiming due rows, with the documents they name."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from typing import Any

from onward.backends.relational.books import Books, Doc, requested
from onward.backends.relational.publishing import begin_round
from onward.model.breaker import Breaker, allowance, probing
from onward.model.ledger import (
    BACKGROUND,
    MAX_COMMIT_BYTES,
    MAX_COMMIT_DOCUMENTS,
    OVERDUE,
    TURNS,
    Delivery,
    Input,
    Standing,
)

_HIGHEST = 2**31


def claim(
    books: Books,
    worker: str,
    service: str,
    *,
    limit: int,
    lease: float,
    needs: Sequence[str],
    healthy_probes: Sequence[str],
    suspects: bool,
    turns: int = 0,
    among: Sequence[int] | None = None,
) -> list[Delivery]:
    """Claim what is due, as far as the breakers of what the service needs allow.

    `turns`: how many rows were claimed since the last that was due to the background. `among`: only these rows.
    """
    if any(not books.breaker(dependency).quiet for dependency in needs):
        books.lock_breakers()  # of all that claim, one may probe
    breakers = [books.breaker(dependency) for dependency in needs]
    for breaker in breakers:
        allowed = _allowed(books, breaker, healthy_probes)
        limit = limit if allowed is None else min(limit, allowed)
    if limit <= 0:
        return []
    if suspects:
        due = books.db.read("due_suspects", service, books.now, 1)
    elif among is not None:
        due = books.db.read("due_among", list(among), service, books.now)[:limit]
    else:
        due = _due(books, service, limit, turns)
    found = _cut(due)
    if not found:
        return []
    books.db.send("claim_rows", worker, books.now + lease, [values[0] for values in found])
    for breaker in breakers:
        if breaker.open:
            books.save_breaker(probing(breaker, found[0][0], books.now))
    deliveries = [_delivery(service, values) for values in found]
    _read_inputs(books, deliveries, [values[9] for values in found], adopt=True)
    books.write()
    return deliveries


def claimed(books: Books, worker: str) -> list[Delivery]:
    """What a worker holds, for whoever has to judge it in its place."""
    found = books.db.read("claimed_rows", worker)
    deliveries = [_delivery(values[-1], values[:-1]) for values in found]
    _read_inputs(books, deliveries, [values[9] for values in found], adopt=False)
    return deliveries


def _allowed(books: Books, breaker: Breaker, healthy_probes: Sequence[str]) -> int | None:
    if breaker.open and breaker.dependency in healthy_probes:
        return 0
    under_way = 0
    if breaker.limit is not None:
        users = [one.service for one in books.subscriptions() if breaker.dependency in one.needs]
        under_way = books.db.read("under_way", users)
    return allowance(breaker, books.now, under_way)


def _due(books: Books, service: str, limit: int, turns: int) -> list[list[Any]]:
    """Due rows, one level of priority after the other, so that waiting ones are never read.

    Every tenth turn is one for what waits in the background, and has waited for too long.
    """
    overdue: list[list[Any]] = []
    if share := (turns + limit) // TURNS:
        overdue = books.db.read("due_rows", service, BACKGROUND, books.now - OVERDUE, share)
    known = {values[0] for values in overdue}
    others: list[list[Any]] = []
    level = _HIGHEST
    while len(overdue) + len(others) < limit:
        level = books.db.read("next_priority", service, level)
        if level is None:
            break
        more = books.db.read("due_rows", service, level, books.now, limit - len(others))
        others += [values for values in more if values[0] not in known][: limit - len(overdue) - len(others)]
    for position, values in enumerate(overdue):
        # Not first: of what is more than one may hold, the last is left.
        others.insert((position + 1) * TURNS - 1 - turns, values)
    return others


def _cut(found: list[list[Any]]) -> list[list[Any]]:
    """No claim holds more documents than a commit may."""
    documents = 0
    for position, values in enumerate(found):
        documents += len(values[9])
        if documents > MAX_COMMIT_DOCUMENTS and position:
            return found[:position]
    return found


def _delivery(service: str, values: Sequence[Any]) -> Delivery:
    row, token, key, collection, lapses, errors = *values[:2], *values[7:9], values[16], values[21]
    # Thousands a second: in the order of its fields, for names would cost as much as all the rest.
    fields = [row, token + 1, service, *values[2:7], requested(key), collection, [], *values[10:16], lapses > 0]
    fields += [*values[17:21], json.loads(errors) if errors else {}]
    return Delivery(*fields)


def _read_inputs(
    books: Books, deliveries: Iterable[Delivery], named: Iterable[list[tuple[str, int]]], *, adopt: bool
) -> None:
    pairs = list(zip(deliveries, named, strict=True))
    # Only glanced at: what has changed by then is found out when the work is settled.
    named_keys = [(delivery.collection, id) for delivery, ids in pairs if delivery.collection for id, _ in ids]
    books.read_documents(named_keys, to_change=False)
    unread: dict[int, Input] = {}
    budget = MAX_COMMIT_BYTES
    for delivery, ids in pairs:
        if adopt and any(not round for _, round in ids):
            ids[:] = _adopt(books, delivery, ids)
        for id, round in ids:
            assert delivery.collection is not None, "a row with documents has their collection"
            doc = books.docs[delivery.collection, id]
            standing = _standing(doc, delivery, round)
            given = Input(id, standing, doc.revision if doc else 0, doc.round if doc else 0)
            delivery.inputs.append(given)
            if doc is not None and standing is Standing.READY and budget > 0:
                budget -= doc.size
                unread[doc.doc] = given
    if unread:
        for number, body in books.db.read("bodies", list(unread)):
            unread[number].body = body


def _adopt(books: Books, delivery: Delivery, ids: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Documents that came after the event that waits for them begin their round with it."""
    pairs: list[tuple[str, int]] = []
    for id, round in ids:
        key = (delivery.collection or "", id)
        doc = books.docs[key] if round else books.document(key)
        if round or doc is None or doc.final or not doc.untouched:
            pairs.append((id, round))
            continue
        begin_round(doc, delivery.row, books.now)
        books.change(key)
        delivery.source = delivery.source or doc.source
        delivery.round = max(delivery.round, doc.round)
        pairs.append((id, doc.round))
    if pairs != [tuple(pair) for pair in ids]:
        generation = books.generation(delivery.source)
        books.db.send("adopt", pairs, delivery.round, delivery.source, generation, delivery.row)
    return pairs


def _standing(doc: Doc | None, delivery: Delivery, round: int) -> Standing:
    if doc is None:
        # What could be read once and is gone was removed; nobody waits for it any more.
        return Standing.SUPERSEDED if round else Standing.MISSING
    if doc.final:
        return Standing.FINAL
    return Standing.READY if doc.row == delivery.row else Standing.SUPERSEDED
