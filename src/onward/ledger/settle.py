"""Committing works: fenced by token first, then checked, then written, all in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onward.ledger.applied_settlement import AppliedSettlement
from onward.ledger.requeue import requeue_uncharged
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey
from onward.model.ledger import CommitResult, CommitStatus, Processed, RowState, Settlement


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
    for result in results[:1]:
        result.woken = frozenset(unit.woken)
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
    if settlement.reads or settlement.dependencies is not None or not _is_all_done(settlement):
        return False
    return all(new.failure is None for new in settlement.adds)


def _close_rows(unit: UnitOfWork, held: Mapping[int, int]) -> dict[int, tuple[str | None, int]]:
    """Settle rows; return source and generation of those that were still claimed under these tokens."""
    tokens: dict[int, list[int]] = {}
    for row, token in held.items():
        tokens.setdefault(token, []).append(row)
    closed: dict[int, tuple[str | None, int]] = {}
    for token, rows in tokens.items():  # most rows have the token of a first claim
        for row, source, generation in unit.db.fetch("close_rows", unit.now, rows, token):
            closed[row] = source, generation
    unit.read_generations({source for source, _ in closed.values()})
    return closed


def _add_all(
    unit: UnitOfWork, settlement: Settlement, closed: Mapping[int, tuple[str | None, int]]
) -> CommitResult:
    """Apply a settlement whose row is closed, unless the delivery was taken over."""
    source, generation = closed.get(settlement.row, (None, -1))
    if generation != unit.generation(source):
        return CommitResult(CommitStatus.FENCED)
    for new in settlement.adds:
        unit.add_made(new, source)
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
