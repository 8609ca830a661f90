"""Completing joins: members are counted when they are final, and the last one publishes the event.

All of it is part of the transaction that makes the documents final, so an event is published once, whenever a
process dies. A document has the mark `joined` from the transaction on that opens its join, which locks it: whoever
makes it final later finds the mark, and documents without it cost no query.
"""

from __future__ import annotations

import json
import logging
from collections import Counter
from collections.abc import Iterable

from onward.ledger.dialect import Database
from onward.ledger.publish import publish
from onward.ledger.records import DocumentRecord
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import FINAL, DocumentKey, Status
from onward.model.events import Envelope
from onward.model.joins import MAX_FAILED_IDS, MAX_FAILED_IDS_CHARACTERS, MemberOutcome, NewJoin
from onward.model.ledger import MAX_COMMIT_DOCUMENTS

log = logging.getLogger("onward")

_OUTCOMES: dict[str, MemberOutcome] = {
    status: MemberOutcome.PROCESSED if status is Status.PROCESSED else MemberOutcome.FAILED for status in FINAL
}
# An operator may still put these right: a join that allows no failed document waits for it.
_RETRIABLE = frozenset((Status.FAILED, Status.FAILED_MAX_RETRIES))
_ALL = 2**31


def complete_joins(unit: UnitOfWork) -> bool:
    """Count members that have ended, open new joins, and publish the events of joins that are complete.

    Return whether any event was published. Everything else of the unit of work has been written.
    """
    if unit.new_joins:
        _lock_new_joins(unit)
    counts = _count_ended_members(unit)
    if unit.new_joins:
        # Of all joins that are changed here, in one order: no two transactions wait for each other.
        unit.db.fetch("lock_joins", sorted(counts), [join.key for join in unit.new_joins])
    for id in sorted(counts):
        _change_counts(unit.db, id, counts[id])
    # Not before: a document that was deleted and added again may be a member of a new join.
    changed = counts.keys() | _open_joins(unit) | unit.released_joins
    unit.released_joins.clear()
    envelopes = _close_complete_joins(unit, changed) if changed else []
    if envelopes:
        publish(unit, envelopes)
        unit.write()
    return bool(envelopes)


def _count_ended_members(unit: UnitOfWork) -> dict[int, Counter[MemberOutcome]]:
    """Mark documents as ended in the joins that wait for them; return how the counts of these joins change."""
    ended: list[tuple[str, str, int, int]] = []
    for key in sorted(unit.ended_members):
        doc = unit.document(key)
        if doc is None or not doc.joined:  # it was deleted, and perhaps added again
            ended.append((*key, MemberOutcome.REMOVED, 1))
        elif (outcome := _OUTCOMES.get(doc.status)) is not None:
            ended.append((*key, outcome, int(doc.status not in _RETRIABLE)))
    unit.ended_members.clear()
    counts: dict[int, Counter[MemberOutcome]] = {}
    for join, holder, outcome in unit.db.fetch("count_members", ended) if ended else ():
        by_outcome = counts.setdefault(join, Counter())
        by_outcome[MemberOutcome.OPEN] -= 1
        if not (holder and outcome == MemberOutcome.PROCESSED):
            by_outcome[MemberOutcome(outcome)] += 1
    return counts


def _change_counts(db: Database, join: int, by: Counter[MemberOutcome]) -> None:
    if any(by.values()):
        db.send("change_join", join, *(by[outcome] for outcome in MemberOutcome))


def _lock_new_joins(unit: UnitOfWork) -> None:
    """Lock the documents of new joins, then the keys of these joins.

    Whoever makes such a document final now waits, and then finds its mark. Not after a join has been locked to be
    counted: whoever has locked a document, or a key, may wait for that join.
    """
    unit.read_documents(key for join in unit.new_joins for key in (*join.members, *join.holders))
    unit.db.lock("joins", [join.key for join in unit.new_joins])


def _open_joins(unit: UnitOfWork) -> set[int]:
    """Open new joins, or extend open ones with the same key; return their ids."""
    new = sorted(unit.new_joins, key=lambda join: join.key)
    unit.new_joins.clear()
    return {_open_join(unit, join) for join in new}


def _open_join(unit: UnitOfWork, join: NewJoin) -> int:
    db, allow_failed = unit.db, join.allow_failed
    members = dict.fromkeys(join.members)
    known: dict[DocumentKey, tuple[int, int]] = {}
    found = db.read("open_join", join.key)
    if found is not None and found[2] != unit.generation(found[1]):
        db.send("close_join", found[0])  # its source was forgotten
        found = None
    if found is None:
        ((id,),) = db.fetch("insert_join", *_columns(unit, join))
        kept = int(not join.hold_seconds)
    else:
        id, allow_failed, kept = found[0], bool(found[3]), found[4]
        wanted = [list(key) for key in (*members, *join.holders)]
        rows = db.read("known_members", id, wanted) if wanted else ()
        known = {(collection, name): (holder, outcome) for collection, name, holder, outcome in rows}
    added: list[tuple[int, str, str, int, int]] = []
    counts: Counter[MemberOutcome] = Counter()
    for key in members:
        outcome = _outcome(unit.docs[key], allow_failed)
        if key in known:
            if known[key][1] != MemberOutcome.REMOVED or outcome == MemberOutcome.REMOVED:
                continue
            counts[MemberOutcome.REMOVED] -= 1  # it was added again, and is named again
        counts[outcome] += 1
        added.append((id, *key, 0, int(outcome)))
    for key in join.holders:
        doc = unit.docs[key]
        holder, ended_as = known.get(key, (1, None))
        if key in members or doc is None or doc.status in FINAL or not holder or ended_as == MemberOutcome.OPEN:
            continue
        # A holder that was counted as failed or removed, and goes on now, is waited for again.
        counts[MemberOutcome.OPEN] += 1
        if ended_as in (MemberOutcome.FAILED, MemberOutcome.REMOVED):
            counts[MemberOutcome(ended_as)] -= 1
        added.append((id, *key, 1, int(MemberOutcome.OPEN)))
    if added:
        db.bulk("insert_members", added)
        waited_for = ((collection, name) for _, collection, name, _, how in added if how == MemberOutcome.OPEN)
        _mark(unit, waited_for)
    if join.hold_seconds:
        db.send("hold_join", id, unit.now + join.hold_seconds, kept)
    elif join.releases:
        db.send("hold_join", id, None, 1)
    elif not kept:
        db.send("keep_join", id)
    _change_counts(db, id, counts)
    return int(id)


def _columns(unit: UnitOfWork, join: NewJoin) -> tuple[object, ...]:
    then = join.then
    event = (then.event_type, then.event_id, then.version, then.data, then.trace, then.priority, int(then.notice))
    place = (then.routing_key, join.joined_field, then.source, unit.generation(then.source))
    return (join.key, int(join.allow_failed), unit.now, *event, *place)


def _outcome(doc: DocumentRecord | None, allow_failed: bool) -> MemberOutcome:
    """Return how a document has ended when its join is opened; one that does not exist counts as removed."""
    if doc is None:
        return MemberOutcome.REMOVED
    if doc.status not in FINAL or (doc.status in _RETRIABLE and not allow_failed):
        return MemberOutcome.OPEN
    return _OUTCOMES[doc.status]


def _mark(unit: UnitOfWork, keys: Iterable[DocumentKey]) -> None:
    unmarked = [doc for key in keys if (doc := unit.docs[key]) is not None and not doc.joined]
    for doc in unmarked:
        doc.joined = 1
    if unmarked:
        unit.db.send("mark_joined", sorted(doc.doc for doc in unmarked))


def _close_complete_joins(unit: UnitOfWork, joins: Iterable[int]) -> list[Envelope]:
    """Close the joins that wait for nothing any more; return their events."""
    envelopes: list[Envelope] = []
    for id, processed, failed, removed, *event, joined_field, source, generation in unit.db.read(
        "complete_joins", sorted(joins)
    ):
        if generation == unit.generation(source):  # else its source was forgotten
            event_type, event_id, version, data, trace, priority, notice, routing_key = event
            if joined_field is not None:
                failed_ids = _failed_ids(unit.db, id) if failed else []
                counts = {"processed": processed, "failed": failed, "removed": removed, "failed_ids": failed_ids}
                joined = {"total": processed + failed + removed} | counts
                data = json.dumps(json.loads(data) | {joined_field: joined}, ensure_ascii=False)
            about = (version, trace, source, priority, 0.0, bool(notice))
            envelopes.append(Envelope(event_type, data, event_id, unit.now, *about, routing_key=routing_key))
            log.debug(
                "%s %s: all of its %d documents are final", event_type, event_id, processed + failed + removed
            )
        if processed + failed + removed < MAX_COMMIT_DOCUMENTS:
            unit.db.send("delete_members", id, _ALL)
            unit.db.send("delete_join", id)
        else:
            unit.db.send("close_join", id)  # `sweep_joins` deletes its members, in several transactions
    return envelopes


def _failed_ids(db: Database, id: int) -> list[str]:
    names: list[str] = []
    size = 0
    for collection, name in db.read("failed_members", id, MAX_FAILED_IDS):
        size += len(collection) + len(name)
        if size > MAX_FAILED_IDS_CHARACTERS:
            break
        names.append(f"{collection}/{name}")
    return names
