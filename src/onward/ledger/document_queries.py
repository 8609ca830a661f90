"""Listing documents: by status, source, failure group, id prefix or key; counts of documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.ledger.reader import collection_of, nested, read_state
from onward.ledger.transactions import TransactionalStore
from onward.model.documents import FINAL, Document, DocumentKey, DocumentState, Status

_GIVEN_UP = FINAL - {Status.PROCESSED}
_LAST_CHARACTER = "\U0010ffff"
_MAX_ID_CHARACTERS = 512


class DocumentQueries(TransactionalStore):
    """Lists documents for operators."""

    def states(
        self,
        document: type[Document] | str,
        *,
        status: str | None = None,
        source: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[DocumentState]:
        """Return what the ledger knows of the documents of a collection, ordered by id, behind the id `after`."""
        collection = collection_of(document)
        if status is not None:
            behind = (collection, after)
            return self.find_states(collection=collection, status=status, source=source, after=behind, limit=limit)
        records = self.db.read("document_page", collection, status, source, after, limit)
        return [read_state(collection, values) for values in records]

    def find_states(
        self,
        *,
        collection: str | None = None,
        status: str | None = None,
        source: str | None = None,
        fingerprint: str | None = None,
        before: float | None = None,
        after: DocumentKey = ("", ""),
        limit: int = 100,
    ) -> list[DocumentState]:
        """Return documents that match, ordered by collection, then id; `before`: not changed since then."""
        if fingerprint is not None:
            return _states(
                self.db.read("group_states", fingerprint, *after, collection, status, source, before, limit)
            )
        # Each status has the statement whose index is smallest: most documents are processed.
        statement = "found_states"
        if status is not None and status != Status.PROCESSED:
            statement = "given_up_states" if status in _GIVEN_UP else "unfinished_states"
        names = sorted({name for name, _, _ in self.db.read("document_counts", source)})
        states: list[DocumentState] = []
        for name in names if collection is None else [collection]:
            if name < after[0] or len(states) >= limit:
                continue
            behind = after[1] if name == after[0] else ""
            left = limit - len(states)
            states += _states(self.db.read(statement, name, behind, status, source, before, left))
        return states

    def ids_like(self, prefix: str, *, limit: int = 100) -> list[tuple[str, str]]:
        """Return collection and id of the documents whose id has this prefix, ordered by collection, then id."""
        keys = self.db.read("ids_like", prefix, prefix + _LAST_CHARACTER * _MAX_ID_CHARACTERS, limit)
        return [(collection, id) for collection, id in keys]

    def highest_beside(
        self, document: type[Document] | str, key: str, values: Sequence[str | float], *, beside: str
    ) -> dict[str | float, float]:
        """Return, for each value of a key, the highest number that its documents have under the key `beside`."""
        pairs = self.db.read("highest_beside", key, list(values), beside, collection_of(document))
        return {value: float(highest) for value, highest in pairs}

    def ordered_ids(
        self,
        document: type[Document] | str,
        key: str,
        value: str | float,
        *,
        by: str,
        start: int = 0,
        limit: int = 100,
    ) -> list[str]:
        """Return ids of documents that have this value under a key, ordered by the number under the key `by`.

        Those without that key count as 0; equal ones come in the order in which they were stored.
        """
        return list(self.db.read("ordered_ids", key, [value], by, collection_of(document), start, limit))

    def ids_before(self, document: type[Document] | str, key: str, value: str | float, id: str, *, by: str) -> int:
        """Return how many ids `ordered_ids` lists before this one."""
        count: int = self.db.read("ids_before", key, [value], by, collection_of(document), id)
        return count

    def key_values(self, key: str) -> list[str | float]:
        """Return all values that documents have under a key."""
        return list(self.db.read("key_values", key))

    def sources(self) -> list[str]:
        """Return the sources that documents belong to."""
        return list(self.db.read("sources"))

    def document_counts(self, source: str | None = None) -> dict[str, dict[str, int]]:
        """Count the documents by collection and status; of one source, or of all."""
        return nested(self.db.read("document_counts", source))

    def children_counts(self, collection: str, id: str) -> dict[str, dict[str, int]]:
        """Count the documents that were made from this one, by collection and status."""
        return nested(self.db.read("children_counts", f"{collection}/{id}"))


def _states(records: list[list[Any]]) -> list[DocumentState]:
    return [read_state(collection, values) for collection, *values in records]
