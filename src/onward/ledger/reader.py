"""Queries for documents: those that handlers get, and those for operators."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, TypeVar

from onward.ledger.dialect import Database
from onward.ledger.off_loop import off_loop
from onward.model.documents import FINAL, Document, DocumentKey, DocumentState, Status
from onward.model.failures import read_history
from onward.model.ledger import FoundDocument

D = TypeVar("D", bound=Document)
PAGE_DOCUMENTS = 1_000
Documents = type[Document] | str  # A class of documents, or the name of their collection
Value = str | float  # Of a key
_GIVEN_UP = FINAL - {Status.PROCESSED}
_LAST_CHARACTER = "\U0010ffff"
_MAX_ID_CHARACTERS = 512
_END_OF_TIME, _LAST_DOC = 1e300, 2**62


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

    def state(self, document: Documents, id: str) -> DocumentState | None:
        """Return what the ledger knows of a document: status, rounds, history."""
        collection = collection_of(document)
        found = self.db.read("document", collection, id)
        return None if found is None else read_state(collection, [id, *found])

    def statuses(self, document: Documents, ids: Sequence[str]) -> dict[str, str]:
        """Return the status of each of these documents that exists."""
        return dict(self.db.read("statuses", collection_of(document), list(ids)))

    def find(self, document: Documents, key: str, values: Sequence[Value]) -> list[FoundDocument]:
        """Return the documents that have one of these values under a key of their class."""
        rows = self.db.read("found", key, list(values), collection_of(document))
        return [FoundDocument(*row) for row in rows]

    def ids(self, document: Documents, key: str, value: Value) -> list[str]:
        """Return only the ids of the documents that have this value under a key; for many documents."""
        return [id for (id,) in self.db.fetch("keyed_ids", key, [value], collection_of(document))]

    def find_pages(
        self, document: Documents, key: str, value: Value, *, beside: str
    ) -> Iterator[list[tuple[FoundDocument, Value | None]]]:
        """Yield the documents with this value under a key, each with its value of the key `beside`.

        They come in the order in which they were stored, at most `PAGE_DOCUMENTS` at a time, to limit memory.
        """
        after, collection = 0, collection_of(document)
        while rows := self.db.read("found_page", key, [value], beside, collection, after, PAGE_DOCUMENTS):
            after = rows[-1][0]
            yield [(FoundDocument(value, *row[1:5]), row[5]) for row in rows]

    def value_counts(self, document: Documents, key: str, values: Sequence[Value]) -> dict[Value, dict[str, int]]:
        """Count the documents that have one of these values under a key, by value and status."""
        return nested(self.db.read("value_counts", key, list(values), collection_of(document)))

    def counts_beside(
        self, document: Documents, key: str, values: Sequence[Value], other: str
    ) -> dict[Value, dict[Value, int]]:
        """Count the documents that have one of these values under a key, by value and by each value of `other`."""
        return nested(self.db.read("counts_beside", key, list(values), other, collection_of(document)))

    def related(
        self, document: Documents, key: str, values: Sequence[Value], other: str
    ) -> list[tuple[Value, Value]]:
        """Return pairs of a value of `key`, of these values, and a value of `other` that a document has."""
        found = self.db.read("related", key, list(values), other, collection_of(document))
        return [(value, other_value) for value, other_value in found]

    def unfinished(
        self, document: type[Document], key: str, values: Sequence[Value], *, children: type[Document]
    ) -> set[Value]:
        """Return the values of a key with an unfinished document, or child of one, that is in no failed batch."""
        return set(self.db.read("unfinished", key, list(values), document.collection, children.collection))

    def children(
        self, document: Documents, of: Documents, ids: Sequence[str], *, unlike: str | None = None
    ) -> list[FoundDocument]:
        """Return documents made from these, each with its parent's id; without those that have status `unlike`."""
        prefix = f"{collection_of(of)}/"
        found = self.db.read("children_of", [prefix + id for id in ids], collection_of(document), unlike)
        return [FoundDocument(parent.removeprefix(prefix), *more) for parent, *more in found]

    # -- with `await`: for `async def` handlers, which must not block the loop

    async def aget(self, document: type[D], id: str) -> D | None:
        """Return the document with this id, or None."""
        return await off_loop(self.db, partial(self.get, document, id))

    async def aget_many(self, document: type[D], ids: Sequence[str]) -> list[D]:
        """Return the documents with these ids, in that order, without those that do not exist."""
        return await off_loop(self.db, partial(self.get_many, document, ids))

    async def astate(self, document: Documents, id: str) -> DocumentState | None:
        """Return what the ledger knows of a document: status, rounds, history."""
        return await off_loop(self.db, partial(self.state, document, id))

    async def afind(self, document: Documents, key: str, values: Sequence[Value]) -> list[FoundDocument]:
        """Return the documents that have one of these values under a key of their class."""
        return await off_loop(self.db, partial(self.find, document, key, values))

    async def achildren(
        self, document: Documents, of: Documents, ids: Sequence[str], *, unlike: str | None = None
    ) -> list[FoundDocument]:
        """Return documents made from these, each with its parent's id; without those that have status `unlike`."""
        return await off_loop(self.db, partial(self.children, document, of, ids, unlike=unlike))


class DocumentQueries(Reader):
    """Lists documents for operators."""

    def states(
        self,
        document: Documents,
        *,
        status: str | None = None,
        source: str | None = None,
        after: str = "",
        limit: int = 100,
    ) -> list[DocumentState]:
        """Return what the ledger knows of the documents of a collection, ordered by id, behind the id `after`."""
        collection = collection_of(document)
        if status is not None or source is not None:
            behind = (collection, after)
            return self.find_states(collection=collection, status=status, source=source, after=behind, limit=limit)
        records = self.db.read("document_page", collection, after, limit)
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
            about = (fingerprint, *after, collection, status, source, before, limit)
            return _states(self.db.read("group_states", *about))
        # Each status has the statement whose index is smallest: most documents are processed.
        statement = "found_states"
        if status is not None and status != Status.PROCESSED:
            statement = "given_up_states" if status in _GIVEN_UP else "unfinished_states"
        counts = self.document_counts(source) if collection is None or source is not None else {}
        states: list[DocumentState] = []
        for name in sorted(counts) if collection is None else [collection]:
            if name < after[0] or len(states) >= limit:
                continue
            behind = after[1] if name == after[0] else ""
            left = limit - len(states)
            if source is not None:
                here = counts.get(name, {})
                wanted = [status] if status is not None else sorted({*here, *map(str, Status)})
                matching = sum(here.get(one, 0) for one in wanted)
                if matching <= left or self._is_sparse(statement, name, status, matching, left):
                    of_source = self.db.read("states_of_source", name, behind, wanted, source, before, left)
                    states += _states(of_source)
                    continue
            states += _states(self.db.read(statement, name, behind, status, source, before, left))
        return states

    def _is_sparse(self, statement: str, collection: str, status: str | None, matching: int, limit: int) -> bool:
        """Return whether sorting all matching documents costs less than looking for the first of them by id."""
        counts = self.document_counts().get(collection, {})
        read = sum(n for one, n in counts.items() if _is_walked(statement, status, one))
        # Ids are evenly distributed: each match is found after read / matching documents, on average.
        return matching**2 <= limit * read

    def states_of_groups(self, fingerprints: Sequence[str], *, limit: int) -> dict[str, list[DocumentState]]:
        """Return the first documents of each of several failure groups, ordered by collection, then id."""
        states: dict[str, list[DocumentState]] = {}
        for fingerprint, collection, *values in self.db.read("states_of_groups", list(fingerprints), limit):
            states.setdefault(fingerprint, []).append(read_state(collection, values))
        return states

    def changed_documents(
        self,
        statuses: Mapping[str, Collection[str]],
        *,
        source: str | None = None,
        oldest: bool = False,
        after: tuple[float, int] | None = None,
        limit: int = 100,
    ) -> list[tuple[tuple[float, int], DocumentKey]]:
        """Return documents by the time of their last change, each with its place: the newest first, or the oldest.

        `statuses` has the wanted statuses of each collection: each pair is read by its own part of an index.
        """
        place = after or ((-1.0, -1) if oldest else (_END_OF_TIME, _LAST_DOC))
        counts = self.document_counts(source)
        if source is None:
            statement = "changed_documents_oldest" if oldest else "changed_documents"
        else:
            statement = "changed_documents_of_source_oldest" if oldest else "changed_documents_of_source"
        found: list[tuple[tuple[float, int], DocumentKey]] = []
        for collection, wanted in statuses.items():
            for status in wanted:
                if counts.get(collection, {}).get(status, 0):
                    about: tuple[Any, ...] = (collection, status, *place, limit)
                    rows = self.db.fetch(statement, *about, *(() if source is None else (source,)))
                    found += [((at, doc), (collection, id)) for at, doc, id in rows]
        found.sort(reverse=not oldest)
        return found[:limit]

    def titled(self, prefix: str, *, limit: int = 100) -> list[DocumentKey]:
        """Return the documents with a `title` among their keys that begins like this."""
        keys = self.db.read("titled", prefix, prefix + _LAST_CHARACTER, limit)
        return [(collection, id) for collection, id in keys]

    def keys_of(self, document: Documents, key: str, ids: Sequence[str]) -> dict[str, Value]:
        """Return the value that each of these documents has under a key."""
        return dict(self.db.read("keys_of_ids", key, collection_of(document), list(ids)))

    def ids_like(self, prefix: str, *, limit: int = 100) -> list[tuple[str, str]]:
        """Return collection and id of the documents whose id has this prefix, ordered by collection, then id."""
        keys = self.db.read("ids_like", prefix, prefix + _LAST_CHARACTER * _MAX_ID_CHARACTERS, limit)
        return [(collection, id) for collection, id in keys]

    def highest_beside(
        self, document: Documents, key: str, values: Sequence[Value], *, beside: str
    ) -> dict[Value, float]:
        """Return, for each value of a key, the highest number that its documents have under the key `beside`."""
        pairs = self.db.read("highest_beside", key, list(values), beside, collection_of(document))
        return {value: float(highest) for value, highest in pairs}

    def ordered_ids(
        self, document: Documents, key: str, value: Value, *, by: str, start: int = 0, limit: int = 100
    ) -> list[str]:
        """Return ids of documents that have this value under a key, ordered by the number (or 0) under `by`."""
        return list(self.db.read("ordered_ids", key, [value], by, collection_of(document), start, limit))

    def ids_before(self, document: Documents, key: str, value: Value, id: str, *, by: str) -> int:
        """Return how many ids `ordered_ids` lists before this one."""
        count: int = self.db.read("ids_before", key, [value], by, collection_of(document), id)
        return count

    def key_values(self, key: str, *, without: Sequence[str] = ()) -> list[Value]:
        """Return the values of a key, of documents that have none of the keys `without`."""
        return list(self.db.read("key_values", key, list(without)))

    def key_values_below(
        self, key: str, value: float, *, without: Sequence[str] = (), limit: int = 100
    ) -> list[float]:
        """Return the highest numbers of a key that are lower than a value, as `key_values` does; highest first."""
        return [found for (found,) in self.db.fetch("key_values_below", key, [value], list(without), limit)]

    def keyed_count(self, key: str, values: Sequence[Value]) -> int:
        """Count the documents that have one of these values under a key; faster than `value_counts`."""
        return int(self.db.read("keyed_count", key, list(values)))

    def sources(self) -> list[str]:
        return list(self.db.read("sources"))

    def document_counts(self, source: str | None = None) -> dict[str, dict[str, int]]:
        """Count all documents, or those of a source, by collection and status; these counts are kept."""
        if source is None:
            return nested(self.db.read("document_counts"))
        return nested(self.db.read("document_counts_of_source", source))

    def document_counts_by_source(self) -> dict[str, dict[str, dict[str, int]]]:
        """Count the documents of each source, by collection and status."""
        counts: dict[str, dict[str, dict[str, int]]] = {}
        for source, collection, status, count in self.db.read("document_counts_by_source"):
            counts.setdefault(source, {}).setdefault(collection, {})[status] = count
        return counts

    def children_counts(self, collection: str, id: str) -> dict[str, dict[str, int]]:
        return nested(self.db.read("children_counts", f"{collection}/{id}"))


def collection_of(document: Documents) -> str:
    """Return the name of a document class's collection, or the name that was given."""
    return document if isinstance(document, str) else document.collection


def nested(triples: Sequence[Sequence[Any]]) -> dict[Any, dict[Any, Any]]:
    """Turn rows of two names and a value into a dictionary of dictionaries."""
    values: dict[Any, dict[Any, Any]] = {}
    for outer, inner, value in triples:
        values.setdefault(outer, {})[inner] = value
    return values


def read_state(collection: str, values: Sequence[Any]) -> DocumentState:
    """Read a document's state from its columns. What other programs wrote there need not be JSON."""
    fields = [*values[:6], _read_error(values[6]), read_history(values[7]) or {}, *values[8:]]
    return DocumentState(collection, *fields)


def _is_walked(statement: str, wanted: str | None, status: str) -> bool:
    """Return whether a statement that lists documents by id reads those with this status, too."""
    if statement == "given_up_states":
        return status == wanted
    return statement == "found_states" or status not in FINAL


def _read_error(text: Any) -> dict[str, Any] | None:
    if text is None or text == "":
        return None
    try:
        found = json.loads(text)
    except (TypeError, ValueError):
        found = text
    return found if isinstance(found, dict) else {"message": str(found)}


def _states(records: list[list[Any]]) -> list[DocumentState]:
    return [read_state(collection, values) for collection, *values in records]
