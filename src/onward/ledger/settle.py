"""Committing works: fenced by token first, then checked, then written, all in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onward.ledger.applied_settlement import AppliedSettlement
from onward.ledger.failure_groups import made_by
from onward.ledger.requeue import requeue_uncharged
from onward.ledger.serial_keys import hand_over_keys
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey
from onward.model.ledger import (
    CommitResult,
    CommitStatus,
    Processed,
    RowState,
    Settlement,
)

ClosedRows = dict[int, tuple[str | None, int]]  # Source and generation of rows that were settled without reading


def settle(unit: UnitOfWork, settlements: Sequence[Settlement]) -> list[CommitResult]:
    """Apply settlements in order; each sees the changes of those before it."""
    plain: dict[int, int] = {}
    if len({settlement.row for settlement in settlements}) == len(settlements):
        # Else a row has several settlements, and only the last one closes it.
        plain = {settlement.row: settlement.token for settlement in settlements if _is_plain(settlement)}
    closed = _close_rows(unit, plain)
    if len(plain) < len(settlements):
        unit.read_rows([settlement.row for settlement in settlements if settlement.row not in plain])
        unit.read_generations({row.source for row in unit.rows.values() if row is not None})
        unit.read_documents(unit.keys_of(unit.rows))
        unit.read_errors([settlement.row for settlement in settlements if not _is_all_done(settlement)])
    unit.read_documents(_keys(settlements))
    results = [
        _add_all(unit, settlement, closed) if settlement.row in plain else _settle_one(unit, settlement)
        for settlement in settlements
    ]
    if unit.released_keys:
        hand_over_keys(unit)
    for result in results[:1]:
        result.woken = unit.woken  # not a copy: joins that these settlements complete publish more events
    return results


def _is_all_done(settlement: Settlement) -> bool:
    return all(isinstance(part, Processed) for part in settlement.parts)


def _is_plain(settlement: Settlement) -> bool:
    """Return whether a settlement closes a row that names no documents, and only adds documents.

    Most are like this. Their rows need not be read to be settled.
    """
    if settlement.collection is not None or not settlement.closes or settlement.starts or settlement.cursor:
        return False
    if settlement.removes or settlement.replaces or settlement.emits or settlement.texts or settlement.vectors:
        return False
    if settlement.joins or settlement.reads or settlement.dependencies is not None or not _is_all_done(settlement):
        return False
    return all(new.failure is None for new in settlement.adds)


def _close_rows(unit: UnitOfWork, held: Mapping[int, int]) -> ClosedRows:
    """Settle rows; return source and generation of those that were still claimed under these tokens."""
    tokens: dict[int, list[int]] = {}
    for row, token in held.items():
        tokens.setdefault(token, []).append(row)
    closed: ClosedRows = {}
    for token, rows in tokens.items():  # most rows have the token of a first claim
        kept, dropped = unit.completed.take(rows)
        found = unit.db.fetch("close_rows", unit.now, kept, token) if kept else []
        found += unit.db.fetch("delete_closed_rows", dropped, token) if dropped else []
        for row, source, generation, service, serial_key in found:
            closed[row] = source, generation
            if serial_key is not None:
                unit.released_keys.setdefault(service, {}).setdefault(serial_key, set()).add(row)
    unit.read_generations({source for source, _ in closed.values()})
    return closed


def _add_all(unit: UnitOfWork, settlement: Settlement, closed: ClosedRows) -> CommitResult:
    """Apply a settlement whose row is closed, unless the delivery was taken over."""
    source, generation = closed.get(settlement.row, (None, -1))
    if generation != unit.generation(source):
        return CommitResult(CommitStatus.FENCED)
    for new in settlement.adds:
        if unit.add_made(new, source):
            unit.outcomes.add_success(made_by(settlement.service, new.collection), settlement.version, 1)
    unit.outcomes.add_success(settlement.service, settlement.version, 1)
    return CommitResult(CommitStatus.COMMITTED)


def _keys(settlements: Iterable[Settlement]) -> Iterator[DocumentKey]:
    """Yield the keys of all documents that settlements read or change."""
    for settlement in settlements:
        if settlement.collection is not None:
            for id, _ in settlement.inputs:
                yield settlement.collection, id
            for part in settlement.parts:
                for id in part.ids:
                    yield settlement.collection, id
        for collection, id, _ in settlement.reads:
            yield collection, id
        for new in settlement.adds:
            yield new.collection, new.id
        for replacement in settlement.replaces:
            yield replacement.collection, replacement.id
        for join in settlement.joins:
            yield from join.members


def _settle_one(unit: UnitOfWork, settlement: Settlement) -> CommitResult:
    row = unit.rows[settlement.row]
    if row is None or row.state != RowState.CLAIMED or row.token != settlement.token:
        return CommitResult(CommitStatus.FENCED)
    if row.generation != unit.generation(row.source):
        unit.finish(row)
        return CommitResult(CommitStatus.FENCED)
    if not _inputs_unchanged(unit, settlement):
        requeue_uncharged(unit, row)
        return CommitResult(CommitStatus.STALE)
    return AppliedSettlement(unit, settlement, row, origin=row).apply()


def _inputs_unchanged(unit: UnitOfWork, settlement: Settlement) -> bool:
    """Return whether everything that the work has read is unchanged."""
    for id, _ in settlement.inputs:
        doc = unit.docs[settlement.collection or "", id]
        if doc is None or doc.final or doc.row != settlement.row:
            return False
    relied_on = [(settlement.collection or "", *read) for read in settlement.inputs]
    relied_on += settlement.reads
    relied_on += [(new.collection, new.id, new.revision) for new in settlement.replaces]
    return all(
        (doc := unit.docs[collection, id]) is not None and doc.revision == revision
        for collection, id, revision in relied_on
    )
