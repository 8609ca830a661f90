"""Adding documents and replacing their content, inside of a unit of work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.ledger.unit_of_work import UnitOfWork
from onward.model.documents import DocumentKey, Status
from onward.model.ledger import NewDocument


def add_documents(unit: UnitOfWork, documents: Sequence[NewDocument]) -> int:
    """Add documents that do not exist yet, outside of any work; return how many were added."""
    unit.read_documents((document.collection, document.id) for document in documents)
    added = sum(unit.add(document) for document in documents)
    unit.write()
    return added


def add_made_document(unit: UnitOfWork, source: str | None, new: NewDocument) -> bool:
    """Add a document that a work has made; it gets the source of its parent, else of its event."""
    if new.source is None:
        new.source = _source_of(unit, source, new.parent)
    return unit.add(new)


def _source_of(unit: UnitOfWork, source: str | None, parent: str | None) -> str | None:
    if parent is not None:
        collection, _, id = parent.partition("/")
        doc = unit.document((collection, id))
        if doc is not None:
            return doc.source
    return source


def replace_content(unit: UnitOfWork, key: DocumentKey, body: str, keys: Sequence[tuple[str, Any]] = ()) -> bool:
    """Replace a document's content: it becomes `pending`, and the descendants of the old content are removed."""
    doc = unit.document(key)
    if doc is None or not unit.replace_body(key, body, keys):
        return False
    doc.status = Status.PENDING if doc.round else unit.first_status(key[0])
    doc.attempt_count = 0
    doc.last_error = doc.fingerprint = None
    unit.change(key)
    for number in (doc.row, doc.dead_letter):
        row = unit.row(number) if number is not None else None
        if row is not None and row.cursor is not None:
            row.cursor = None  # it was a position in the old content
            unit.save(row)
    unit.write()
    children = unit.db.read("children", [f"{key[0]}/{key[1]}"])
    unit.remove([tuple(child) for child in children])
    return True
