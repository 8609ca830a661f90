"""Claiming due rows, with the documents that they name.

A row is not claimed before it is due, nor while another worker holds it: until its lease lapses and `reclaim`
gives it back, also if that worker is dead. An event without a subscriber is `unrouted`. A due row is not claimed
as long as one of these holds. In the worker process (`runtime/`):

- No worker runs the row's service, or the service was renamed and has not subscribed with its new name yet.
- The worker drains, cannot reach the store, or has claimed all due rows and nothing has reported others since.
- The service has no free slot, or too few for a claim of their own; or too many calls wait for a commit.
- Another service of the process shares a limited dependency with it, and is first (`claim_turns.py`).
- `SUSPECT_DEATHS` workers died while they ran it: only a process that runs nothing else claims it (`suspects`).

In the store, here:

- The breaker of a dependency is open, paused or at its limit (`allowance` in `model/breaker.py`).
- The declared rate or concurrency of a dependency is used up (`LimitedClaim`, `model/dependency_limits.py`).
- In an episode of a dependency, only the rows of a sample that failed least are claimed (`_least_failed`).
- Rows with a higher priority come first. Background rows get one of `BACKGROUND_EVERY` claims (`_due`).
- The rows before it name `MAX_COMMIT_DOCUMENTS` documents already (`_limited_by_documents`).
- Another transaction has locked it (PostgreSQL: `SKIP LOCKED`).
- Its service runs one delivery at a time for each key, and another row holds its key (`serial_keys.py`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import replace
from itertools import accumulate
from typing import Any

from onward.ledger.dependency_limits import LimitedClaim
from onward.ledger.dialect import Database
from onward.ledger.due_scan import DueScan, DueScans
from onward.ledger.publish import begin_round
from onward.ledger.requeue import return_claims
from onward.ledger.serial_keys import KeyedRow, admit, hand_over_keys
from onward.ledger.settle import settle
from onward.ledger.transactions import transactional
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.breaker import Breaker, allowance, probing, takes_newest
from onward.model.clock import Clock
from onward.model.dependency_limits import ClaimLimits
from onward.model.ledger import (
    BACKGROUND,
    BACKGROUND_EVERY,
    MAX_COMMIT_BYTES,
    MAX_COMMIT_DOCUMENTS,
    OVERDUE,
    CommitResult,
    Delivery,
    Input,
    InputStatus,
    Settlement,
)

MAX_PARKING_ROWS = 1000  # Due rows that one claim looks at, if most of them wait for their keys
SAMPLE_ROWS = 32  # Due rows that are read from each end of the queue while a dependency recovers


class Deliveries(DueScans):
    """Claims deliveries, and settles or releases them."""

    def __init__(self, db: Database, clock: Clock | None = None) -> None:
        super().__init__(db, clock)
        self._claims_since_background: dict[str, int] = {}  # Rows of each service since the last background row

    @transactional
    def claim(
        self,
        unit: UnitOfWork,
        worker: str,
        service: str,
        *,
        limit: int,
        lease: float,
        needs: Sequence[str] = (),
        with_health_call: Sequence[str] = (),
        suspects: bool = False,
        key_of: Callable[[Delivery], str | None] | None = None,
        ordered: bool = False,
        limits: ClaimLimits | None = None,
    ) -> list[Delivery]:
        """Claim due rows of a service, by priority, then due time, and read their documents.

        No more is claimed than the breakers of `needs` allow. While the breaker of a dependency in
        `with_health_call` is open, a document probes it only after a health call. `suspects` claims only events
        that must run alone, one at a time; without it those are left out. `limits` are those that are declared
        for `needs`, if there are any.

        With `key_of`, of the rows with the same key only one is claimed at a time; with `ordered`, the one that
        was published first. `key_of` gets a delivery with its document; what it raises is in `key_error`.
        """
        if any(unit.breakers.of(dependency).limits_claims for dependency in needs):
            unit.breakers.lock()  # only one claim in the fleet may probe
        breakers = [unit.breakers.of(dependency) for dependency in needs]
        for breaker in breakers:
            under_way = 0
            if breaker.limit is not None:
                users = [user.service for user in unit.subscriptions() if breaker.dependency in user.needs]
                under_way = unit.db.read("claimed_count", users)
            has_health = breaker.dependency in with_health_call
            allowed = allowance(breaker, unit.now, under_way, has_health=has_health)
            limit = limit if allowed is None else min(limit, allowed)
        calls: list[int] = []
        limited = LimitedClaim(unit, limits) if limits is not None and limit > 0 else None
        limit = limit if limited is None else limited.rows(limit)
        if limit <= 0:
            return []

        def read_due(limit: int) -> list[list[Any]]:
            if suspects:
                return _limited_by_documents(unit.db.read("due_suspects", service, unit.now, 1))
            return _limited_by_documents(self._read_due(unit, service, breakers, limit, ordered=ordered))

        if key_of is None:
            rows = read_due(limit)
            if limited is not None:
                calls = limited.take([(len(row[9]), row[17], _is_expired(row[23], unit.now)) for row in rows])
                rows = rows[: len(calls)]
            if not rows:
                return []
            unit.db.send("claim_rows", worker, [values[0] for values in rows])
            deliveries = [_new_delivery(service, values, unit.now) for values in rows]
            _read_inputs(unit, deliveries, [values[9] for values in rows], adopt=True)
        else:
            if ordered:
                unit.db.lock("ordered claims", [service])
            deliveries = _claim_keyed(unit, worker, service, limit, read_due, key_of, ordered=ordered)
            if limited is not None:
                calls = limited.take([(1, None, delivery.expired) for delivery in deliveries])
            if not deliveries:
                return []
        if limited is not None:
            limited.mark(deliveries, calls)
        unit.db.send("hold_lease", worker, unit.now + lease)
        for breaker in breakers:
            if breaker.open and not deliveries[0].expired:  # what has expired is not tried, and probes nothing
                unit.breakers.save(probing(breaker, deliveries[0].row, unit.now, unit.breaker_rules))
        before = self._claims_since_background.get(service, 0)
        self._claims_since_background[service] = (before + len(deliveries)) % BACKGROUND_EVERY
        return deliveries

    def _read_due(
        self, unit: UnitOfWork, service: str, breakers: Sequence[Breaker], limit: int, *, ordered: bool
    ) -> list[list[Any]]:
        since_background = self._claims_since_background.get(service, 0)
        if ordered:
            # No floors and no sample: an older row that they leave out would be overtaken.
            scan = self.full_scan(service)
            return _due(unit, service, scan, limit, since_background, "due_rows_in_order")
        if any(breaker.episode_began_at is not None for breaker in breakers):
            newest_first = any(map(takes_newest, breakers))
            return _least_failed(unit, service, self.scan(service), limit, newest_first=newest_first)
        return _due(unit, service, self.scan(service), limit, since_background)

    @transactional
    def claimed(self, unit: UnitOfWork, worker: str) -> list[Delivery]:
        """Return the deliveries that a worker holds now, as it received them; its supervisor settles them."""
        rows = unit.db.read("claimed_rows", worker)
        deliveries = [_delivery(values[-1], values) for values in rows]
        _read_inputs(unit, deliveries, [values[9] for values in rows], adopt=False)
        return deliveries

    @transactional
    def settle(self, unit: UnitOfWork, settlements: Sequence[Settlement]) -> list[CommitResult]:
        """Commit these works, in order; each is fenced by its delivery's token."""
        return settle(unit, settlements)

    @transactional
    def renew(self, unit: UnitOfWork, worker: str, lease: float) -> None:
        """Extend the lease of a worker, and record that it is alive."""
        unit.db.send("seen", unit.now, worker)
        unit.db.send("renew_lease", worker, unit.now + lease)

    @transactional
    def release(self, unit: UnitOfWork, worker: str, rows: Sequence[int] | None = None) -> int:
        """Return a worker's claims (all of them by default) to the queue, uncharged; return how many."""
        claims: list[int] = unit.db.read("claims_of", worker)
        return return_claims(unit, claims if rows is None else [row for row in rows if row in claims])


def _least_failed(
    unit: UnitOfWork, service: str, scan: DueScan, limit: int, *, newest_first: bool
) -> list[list[Any]]:
    """Return due rows while a dependency recovers: those that have failed least, from both ends of the queue."""
    # Perhaps only a part of the dependency is down. Documents that need other parts must be tried, too.
    ids: list[int] = []
    for level, floor in scan.floors.items():
        if len(ids) >= limit:
            break
        sample = unit.db.read_unlocked("due_sample", service, level, floor, unit.now, max(SAMPLE_ROWS, limit))
        failed = sorted((row for row in sample if row[1]), key=lambda row: (row[1], row[2]))
        fresh = sorted((row for row in sample if not row[1]), key=lambda row: (row[2], row[0]))
        mixed = [row for pair in zip(fresh, reversed(fresh), strict=True) for row in pair][: len(fresh)]
        if newest_first and fresh:
            mixed.insert(0, mixed.pop(1 if len(mixed) > 1 else 0))
        ids += [id for id, *_ in (mixed + failed)[: limit - len(ids)]]
    return unit.db.read("due_among", ids, service, unit.now) if ids else []


def _claim_keyed(
    unit: UnitOfWork,
    worker: str,
    service: str,
    limit: int,
    read_due: Callable[[int], list[list[Any]]],
    key_of: Callable[[Delivery], str | None],
    *,
    ordered: bool,
) -> list[Delivery]:
    """Claim due rows that get their keys, and park the others; go on until there are enough or none is left.

    Keys are locked in sorted order (`serial_keys.py`). So where transactions run side by side, it leaves rows
    whose keys come before one that it has locked, and ends: another claim looks at them.
    """
    claimed: list[Delivery] = []
    locked: set[str] = set()
    looked_at = 0
    while len(claimed) < limit:
        if looked_at >= MAX_PARKING_ROWS:
            unit.woken.add(service)  # there may be more; they are looked at in another transaction
            break
        wanted = limit - len(claimed)
        rows = read_due(wanted)
        if not rows:
            break
        looked_at += len(rows)
        _keep_first_documents(unit, rows)
        keys = {id: (key, first_due) for id, key, first_due in unit.db.fetch("row_keys", [row[0] for row in rows])}
        deliveries = {values[0]: _new_delivery(service, values, unit.now) for values in rows}
        new = [values for values in rows if keys[values[0]][0] is None]
        known = [values for values in rows if keys[values[0]][0] is not None]
        _read_inputs(unit, [deliveries[values[0]] for values in new], [values[9] for values in new], adopt=True)
        for id in (values[0] for values in new):
            keys[id] = _key(unit, deliveries[id], key_of), keys[id][1]
        left = _locked_too_late(keys, locked) if unit.db.remote else ()
        rows = [values for values in rows if values[0] not in left]
        locked |= {key for id, (key, _) in keys.items() if key is not None and id not in left}
        due = [KeyedRow(first_due, id, key) for id, (key, first_due) in keys.items() if id not in left]
        admission = admit(unit, service, due, ordered=ordered)
        known = [values for values in known if values[0] in admission.rows]
        _read_inputs(
            unit, [deliveries[values[0]] for values in known], [values[9] for values in known], adopt=True
        )
        changed = _change_keys(unit, [deliveries[values[0]] for values in known], keys, key_of)
        admitted = [values for values in rows if values[0] in admission.rows - changed]
        unit.db.bulk("claim_keyed_rows", [(values[0], keys[values[0]][0], worker) for values in admitted])
        claimed += [deliveries[values[0]] for values in admitted]
        if left:
            unit.woken.add(service)
            break
        if not admission.made_due and not changed and (not admission.parked or len(rows) < wanted):
            break
    return claimed


def _change_keys(
    unit: UnitOfWork,
    deliveries: Iterable[Delivery],
    keys: Mapping[int, tuple[str | None, float]],
    key_of: Callable[[Delivery], str | None],
) -> set[int]:
    """Store the keys of rows whose documents have other keys now, as their content was replaced; return the rows.

    They release the keys that they had, and are looked at again, each at its place in the order.
    """
    changed: dict[int, str | None] = {}
    for delivery in deliveries:
        stored = keys[delivery.row][0]
        if stored is None or not any(given.status is InputStatus.READY for given in delivery.inputs):
            continue  # an event without documents never changes
        if not delivery.expired and (key := _key(unit, delivery, key_of)) != stored:
            changed[delivery.row] = key
            unit.released_keys.setdefault(delivery.service, {}).setdefault(stored, set()).add(delivery.row)
    if changed:
        unit.db.bulk("change_keys", list(changed.items()))
        hand_over_keys(unit)  # now, so that this claim finds the rows that get these keys
    return set(changed)


def _locked_too_late(keys: Mapping[int, tuple[str | None, float]], locked: Set[str]) -> set[int]:
    """Return the rows whose keys come before one that is locked, and are not locked themselves."""
    last = max(locked, default="")
    return {id for id, (key, _) in keys.items() if key is not None and key < last and key not in locked}


def _key(unit: UnitOfWork, delivery: Delivery, key_of: Callable[[Delivery], str | None]) -> str | None:
    """Return the key of a delivery that has none yet; None if its document is not to be processed now."""
    if delivery.expired:
        return None
    if delivery.collection is not None:
        if not any(given.status is InputStatus.READY for given in delivery.inputs):
            return None
        (given,) = delivery.inputs
        doc = unit.docs[delivery.collection, given.id]
        if given.body is None and doc is not None:
            ((_, given.body),) = unit.db.read("bodies", [doc.doc])
    try:
        return key_of(delivery)
    except (Exception, SystemExit) as error:  # it is the failure of this delivery alone
        delivery.key_error = error
        return None


def _keep_first_documents(unit: UnitOfWork, rows: Iterable[list[Any]]) -> None:
    """Leave each row its first document, and give the others rows of their own: each has its own key.

    Such rows were published before their service had a key.
    """
    for values in rows:
        row = unit.row(values[0]) if len(values[9]) > 1 else None
        if row is None:
            continue
        unit.read_errors([row.id])
        for pair in row.ids[1:]:
            split = replace(row, id=0, ids=[pair])
            unit.split(split, row.id)
            for key, doc, _ in unit.named(split):
                if doc is not None and doc.row == row.id:
                    doc.row = split.id
                    unit.change(key)
        row.ids = row.ids[:1]
        unit.save(row)
        del values[9][1:]


def _due(
    unit: UnitOfWork,
    service: str,
    scan: DueScan,
    limit: int,
    claims_since_background: int,
    statement: str = "due_rows",
) -> list[list[Any]]:
    """Return due rows, one priority after the other, so that rows that are not due are never read.

    Of every `BACKGROUND_EVERY` rows one is from the background, if one there is overdue by `OVERDUE` seconds.
    """
    overdue: list[list[Any]] = []
    share = (claims_since_background + limit) // BACKGROUND_EVERY
    if share and (floor := scan.floors.get(BACKGROUND)) is not None:
        overdue = unit.db.read(statement, service, BACKGROUND, floor, unit.now - OVERDUE, share)
    overdue_ids = {values[0] for values in overdue}
    others: list[list[Any]] = []
    is_full, began = scan.is_full, time.monotonic()
    for level, floor in scan.floors.items():
        if len(overdue) + len(others) >= limit:
            break
        more = unit.db.read(statement, service, level, floor, unit.now, limit - len(others))
        scan.found(level, more[0][-1] if more else unit.now)
        others += [values for values in more if values[0] not in overdue_ids][: limit - len(overdue) - len(others)]
    if is_full:
        scan.took(time.monotonic() - began)
    for position, values in enumerate(overdue):
        # Not first: `_limited_by_documents` drops the last rows.
        others.insert((position + 1) * BACKGROUND_EVERY - 1 - claims_since_background, values)
    return others


def _limited_by_documents(rows: list[list[Any]]) -> list[list[Any]]:
    """Return as many rows as name at most `MAX_COMMIT_DOCUMENTS` documents, but at least one."""
    documents = accumulate(len(values[9]) for values in rows)
    return rows[: max(1, sum(number <= MAX_COMMIT_DOCUMENTS for number in documents))]


def _new_delivery(service: str, values: Sequence[Any], now: float) -> Delivery:
    delivery = _delivery(service, values)
    delivery.expired = _is_expired(delivery.expires, now)
    return delivery


def _is_expired(expires: float | None, now: float) -> bool:
    return expires is not None and expires <= now


def _delivery(service: str, values: Sequence[Any]) -> Delivery:
    # The idempotency key of the published event: the row of a part that was split off has a number after it.
    row, token, key, collection, lapses = *values[:2], values[7].partition("/")[0], values[8], values[16]
    # Positional: there are thousands a second, and keyword arguments would double the cost.
    fields = [row, token + 1, service, *values[2:7], key, collection, [], *values[10:16], lapses > 0]
    return Delivery(*fields, *values[17:24])


def _read_inputs(
    unit: UnitOfWork, deliveries: Iterable[Delivery], named: Iterable[list[tuple[str, int]]], *, adopt: bool
) -> None:
    pairs = list(zip(deliveries, named, strict=True))
    # Read without locks: a later change is detected when the work is settled.
    named_keys = [(delivery.collection, id) for delivery, ids in pairs if delivery.collection for id, _ in ids]
    unit.read_documents(named_keys, to_change=False)
    unread: dict[int, Input] = {}
    budget = MAX_COMMIT_BYTES
    for delivery, ids in pairs:
        if adopt and any(not round for _, round in ids):
            ids[:] = _adopt(unit, delivery, ids)
        for id, round in ids:
            assert delivery.collection is not None, "a row with documents has their collection"
            doc = unit.docs[delivery.collection, id]
            if doc is None:
                # A document that existed in an earlier round was removed since, and is not waited for.
                status = InputStatus.SUPERSEDED if round else InputStatus.MISSING
            elif doc.final:
                status = InputStatus.FINAL
            else:
                status = InputStatus.READY if doc.row == delivery.row else InputStatus.SUPERSEDED
            input = Input(id, status, doc.revision if doc else 0, doc.round if doc else 0)
            delivery.inputs.append(input)
            if delivery.expired:
                input.failed = doc is not None and doc.fingerprint is not None
                input.in_time = (
                    doc is not None and status is InputStatus.READY and not _is_expired(doc.expires, unit.now)
                )
            elif doc is not None and status is InputStatus.READY and budget > 0:
                budget -= doc.size
                unread[doc.doc] = input
    if unread:
        for number, body in unit.db.read("bodies", list(unread)):
            unread[number].body = body


def _adopt(unit: UnitOfWork, delivery: Delivery, ids: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """Begin the round of documents that were added after the event that names them."""
    pairs: list[tuple[str, int]] = []
    for id, round in ids:
        key = (delivery.collection or "", id)
        doc = unit.docs[key] if round else unit.document(key)
        if round or doc is None or doc.final or not doc.untouched:
            pairs.append((id, round))
            continue
        begin_round(doc, delivery.row, unit.now, delivery.expires)
        unit.change(key)
        delivery.source = delivery.source or doc.source
        delivery.round = max(delivery.round, doc.round)
        pairs.append((id, doc.round))
    if pairs != [tuple(pair) for pair in ids]:
        generation = unit.generation(delivery.source)
        unit.db.send("adopt", pairs, delivery.round, delivery.source, generation, delivery.row)
    return pairs
