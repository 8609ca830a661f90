"""Keys of services that run one delivery at a time for each key, perhaps in the order of publication.

The table `key_holders` has the row that holds each key: it is claimed, or the next one to be claimed. A due row
that does not get its key is parked: it waits with the due time `PARKED_DUE`, so that claims do not read it again.
When the holder is settled, the first parked row gets the key and is due at once; without one the key is deleted. A
holder that waits for a retry keeps its key if the service is ordered, else it releases it.

Every transaction that takes or releases a key locks its row in `key_holders` first, and looks for rows in a
statement after that. So no row is parked behind a holder that has just been settled. Keys are locked in sorted
order, so that two transactions do not wait for each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onward.model.ledger import PARKED_DUE, PerKey

if TYPE_CHECKING:
    from onward.ledger.unit_of_work import UnitOfWork

MAX_LOST_KEYS = 1000  # Keys that one pass of housekeeping releases


class KeyedRow(NamedTuple):
    """A due row with its key, in the order of publication."""

    first_due: float
    id: int
    key: str | None  # None: it needs no key


class Admission(NamedTuple):
    """Which of the due rows may be claimed."""

    rows: set[int]
    parked: int = 0
    made_due: int = 0  # Parked rows that came before them and have their keys now


def admit(unit: UnitOfWork, service: str, rows: Sequence[KeyedRow], *, ordered: bool) -> Admission:
    """Return the rows that hold their key or get it now, and park the others."""
    by_key: dict[str, list[KeyedRow]] = {}
    for row in sorted(rows):
        if row.key is not None:
            by_key.setdefault(row.key, []).append(row)
    admitted = {row.id for row in rows if row.key is None}
    if not by_key:
        return Admission(admitted)
    keys = sorted(by_key)
    holders = dict(unit.db.fetch("take_keys", service, keys, [by_key[key][0].id for key in keys]))
    ours = {key: holder for key, holder in holders.items() if any(row.id == holder for row in by_key[key])}
    others = {key: holder for key, holder in holders.items() if key not in ours}
    given: dict[str, int] = {}
    if others:
        live = set(unit.db.fetch("live_holders", sorted(others.values())))
        given = {key: by_key[key][0].id for key, holder in others.items() if (holder, key) not in live}
        ours |= given
    made_due: list[int] = []
    if ordered and ours:
        for key, first in ((key, by_key[key][0].id) for key in ours):
            if ours[key] != first:
                given[key] = ours[key] = first  # the holder waits, too, and came later
        for key, id, first_due, due in unit.db.fetch("first_of_keys", service, sorted(ours)):
            if (first_due, id) < by_key[key][0][:2]:
                given[key] = id
                del ours[key]
                made_due += [id] if due >= PARKED_DUE else []
    if given:
        unit.db.bulk("give_keys", [(service, key, id) for key, id in given.items()])
    if made_due:
        unit.db.send("make_due", unit.now, made_due)
    admitted.update(ours.values())
    parked = [(row.id, row.key) for row in rows if row.id not in admitted]
    if parked:
        unit.db.bulk("park_rows", parked)
    return Admission(admitted, len(parked), len(made_due))


def hand_over_keys(unit: UnitOfWork) -> None:
    """Give the keys that this transaction has released to the first row that waits for each, and make it due."""
    released, unit.released_keys = unit.released_keys, {}
    for service, rows in sorted(released.items()):
        held = unit.db.fetch("lock_keys", service, sorted(rows))
        _give_on(unit, service, [key for key, holder in held if holder in rows[key]])


def release_lost_keys(unit: UnitOfWork) -> int:
    """Release keys whose holder is settled or gone; return how many."""
    lost: dict[str, list[str]] = {}
    for service, key, _ in unit.db.fetch("lost_keys", MAX_LOST_KEYS):
        lost.setdefault(service, []).append(key)
    for service, keys in lost.items():
        unit.db.fetch("lock_keys", service, keys)
    # Again: until they were locked, a claim may have taken them.
    still = {(service, key) for service, key, _ in unit.db.fetch("lost_keys", MAX_LOST_KEYS)} if lost else set()
    for service, keys in lost.items():
        _give_on(unit, service, [key for key in keys if (service, key) in still])
    return len(still)


def _give_on(unit: UnitOfWork, service: str, keys: list[str]) -> None:
    """Give keys, which are locked, to the next rows; delete those that no row waits for."""
    if not keys:
        return
    following = dict(unit.db.fetch("first_parked", service, keys))
    if following:
        unit.db.send("make_due", unit.now, list(following.values()))
        unit.db.bulk("give_keys", [(service, key, id) for key, id in following.items()])
        unit.woken.add(service)
        if unit.per_key(service) != PerKey.ORDERED:
            unit.returned.add(service)  # their due times have passed; claims in order use no floors
    if unused := [key for key in keys if key not in following]:
        unit.db.send("drop_keys", service, unused)
