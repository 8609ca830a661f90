"""Read-only queries for documents: the part of the store that handlers get."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from onward.model.documents import Document, DocumentState
from onward.model.failures import read_history
from onward.model.ledger import FoundDocument

if TYPE_CHECKING:
    from onward.ledger.dialect import Database

D = TypeVar("D", bound=Document)
PAGE_DOCUMENTS = 1_000


class Reader:
    """Reads documents. `work.store` is a reader that also records the revisions that the handler has read."""

    def __init__(self, db: Database) -> None:
        self.db = db

    def get(self, document: type[D], id: str) -> D | None:
        """Return the document with this id, or None."""
        found = self.get_many(document, [id])
        return found[0] if found else None

    def get_many(self, document: type[D], ids: Sequence[str]) -> list[D]:
        """Return the documents with these ids, in that order, without those that do not exist."""
        bodies = {id: body for id, _, body in self.read_bodies(document.collection, ids)}
        return [document.from_json(bodies[id]) for id in ids if id in bodies]

    def read_bodies(self, collection: str, ids: Sequence[str]) -> list[tuple[str, int, str]]:
        """Return id, revision and JSON text of the documents with these ids that exist, in no order."""
        return [(id, revision, body) for id, revision, body in self.db.read("bodies_by_id", collection, list(ids))]

    def state(self, document: type[Document] | str, id: str) -> DocumentState | None:
        """Return what the ledger knows of a document: status, rounds, history."""
        collection = collection_of(document)
        found = self.db.read("document", collection, id)
        return None if found is None else read_state(collection, [id, *found])

    def statuses(self, document: type[Document] | str, ids: Sequence[str]) -> dict[str, str]:
        """Return the status of each of these documents that exists."""
        return dict(self.db.read("statuses", collection_of(document), list(ids)))

    def find(self, document: type[Document] | str, key: str, values: Sequence[str | float]) -> list[FoundDocument]:
        """Return the documents that have one of these values under a key of their class."""
        rows = self.db.read("found", key, list(values), collection_of(document))
        return [FoundDocument(*row) for row in rows]

    def ids(self, document: type[Document] | str, key: str, value: str | float) -> list[str]:
        """Return only the ids of the documents that have this value under a key; for many documents."""
        return [id for (id,) in self.db.fetch("keyed_ids", key, [value], collection_of(document))]

    def find_pages(
        self, document: type[Document] | str, key: str, value: str | float, *, beside: str
    ) -> Iterator[list[tuple[FoundDocument, str | float | None]]]:
        """Yield the documents that have this value under a key, each with its value of the key `beside`.

        They come in the order in which they were stored, at most `PAGE_DOCUMENTS` at a time, so that memory does
        not grow with their number.
        """
        after, collection = 0, collection_of(document)
        while rows := self.db.read("found_page", key, [value], beside, collection, after, PAGE_DOCUMENTS):
            after = rows[-1][0]
            yield [(FoundDocument(value, *row[1:5]), row[5]) for row in rows]

    def value_counts(
        self, document: type[Document] | str, key: str, values: Sequence[str | float]
    ) -> dict[str | float, dict[str, int]]:
        """Count the documents that have one of these values under a key, by value and status."""
        return nested(self.db.read("value_counts", key, list(values), collection_of(document)))

    def related(
        self, document: type[Document] | str, key: str, values: Sequence[str | float], other: str
    ) -> list[tuple[str | float, str | float]]:
        """Return pairs of a value of `key`, of these values, and a value of `other` that a document has."""
        found = self.db.read("related", key, list(values), other, collection_of(document))
        return [(value, other_value) for value, other_value in found]

    def unfinished(
        self,
        document: type[Document],
        key: str,
        values: Sequence[str | float],
        *,
        children: type[Document],
    ) -> set[str | float]:
        """Return the values of a key under which a document, or a child of one, is not finished yet.

        Documents in a failed batch do not count.
        """
        return set(self.db.read("unfinished", key, list(values), document.collection, children.collection))

    def children(
        self,
        document: type[Document] | str,
        of: type[Document] | str,
        ids: Sequence[str],
        *,
        unlike: str | None = None,
    ) -> list[FoundDocument]:
        """Return the documents of a collection that were made from these, each with its parent's id.

        With `unlike`, only those that have another status.
        """
        prefix = f"{collection_of(of)}/"
        found = self.db.read("children_of", [prefix + id for id in ids], collection_of(document), unlike)
        return [FoundDocument(parent.removeprefix(prefix), *more) for parent, *more in found]


def collection_of(document: type[Document] | str) -> str:
    """Return the name of a document class's collection, or the name that was given."""
    return document if isinstance(document, str) else document.collection


def nested(triples: Sequence[Sequence[Any]]) -> dict[Any, dict[str, Any]]:
    """Turn rows of two names and a value into a dictionary of dictionaries."""
    values: dict[Any, dict[str, Any]] = {}
    for outer, inner, value in triples:
        values.setdefault(outer, {})[inner] = value
    return values


def read_state(collection: str, values: Sequence[Any]) -> DocumentState:
    """Read a document's state from its columns. What other programs wrote there need not be JSON."""
    fields = [*values[:6], _read_error(values[6]), read_history(values[7]) or {}, *values[8:]]
    return DocumentState(collection, *fields)


def _read_error(text: Any) -> dict[str, Any] | None:
    if text is None or text == "":
        return None
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = text
    return found if isinstance(found, dict) else {"message": str(found)}
