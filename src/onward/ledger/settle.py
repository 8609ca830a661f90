"""Committing works: fenced by token first, then checked, then written, all in one transaction."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from onward.ledger.applied_settlement import AppliedSettlement
from onward.ledger.document_content import add_made_document
from onward.ledger.records import ClosedRow
from onward.ledger.requeue import requeue_uncharged
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey
from onward.model.ledger import CommitResult, CommitStatus, RowState, Settlement


def settle(unit: UnitOfWork, settlements: Sequence[Settlement]) -> list[CommitResult]:
    """Apply settlements in order; each sees the changes of those before it."""
    plain = _plain_rows(settlements)
    closed = unit.close_rows(plain) if plain else {}
    if len(plain) < len(settlements):
        unit.read_rows([settlement.row for settlement in settlements if settlement.row not in plain])
        unit.read_generations({row.source for row in unit.rows.values() if row is not None})
        unit.read_documents(unit.keys_of(unit.rows))
        unit.read_errors([settlement.row for settlement in settlements if not settlement.all_done])
    unit.read_documents(_keys(settlements))
    results = [
        _add_all(unit, settlement, closed) if settlement.row in plain else _settle_one(unit, settlement)
        for settlement in settlements
    ]
    unit.write()
    for result in results[:1]:
        result.woken = frozenset(unit.woken)
    return results


def _plain_rows(settlements: Sequence[Settlement]) -> dict[int, int]:
    """Return the rows, with their tokens, that name no documents and whose settlement only adds documents.

    Most are like this. They need not be read to be settled.
    """
    if len({settlement.row for settlement in settlements}) < len(settlements):
        return {}  # a row has several settlements, and only the last one closes it
    return {
        settlement.row: settlement.token
        for settlement in settlements
        if settlement.collection is None and settlement.only_adds
    }


def _add_all(unit: UnitOfWork, settlement: Settlement, closed: Mapping[int, ClosedRow]) -> CommitResult:
    """Apply a settlement whose row `close_rows` has closed, unless the delivery was taken over."""
    found = closed.get(settlement.row)
    if found is None or found.generation != unit.generation(found.source):
        return CommitResult(CommitStatus.FENCED)
    for new in settlement.adds:
        add_made_document(unit, found.source, new)
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
    return AppliedSettlement(unit, settlement, row).apply()


def _inputs_unchanged(unit: UnitOfWork, settlement: Settlement) -> bool:
    """Return whether everything that the work has read is unchanged."""
    collection = settlement.collection or ""
    for id, revision in settlement.inputs:
        doc = unit.docs[collection, id]
        if doc is None or doc.final or doc.row != settlement.row or doc.revision != revision:
            return False
    for name, id, revision in settlement.reads:
        doc = unit.docs[name, id]
        if doc is None or doc.revision != revision:
            return False
    for replacement in settlement.replaces:
        doc = unit.docs[replacement.collection, replacement.id]
        if doc is None or doc.revision != replacement.revision:
            return False
    return True
