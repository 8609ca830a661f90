"""Search methods of the store: full text by words, and vectors in memory, updated by later changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

from onward.model.search_query import Filter, VectorHit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.model.documents import Document
    from onward.model.search_query import Matches

MAX_SPACES = 4
MAX_SPACE_BYTES = 400_000_000  # a larger space is read again for each query
MAX_CHANGES = 20_000  # after more changes than this it is faster to read the whole space again
# A space that was not used for this long is read again: a database remembers removed vectors only for a day.
MAX_AGE_SECONDS = 3_600.0
# Texts that are ranked, the newest, if all words of a query are common. More is slow, and no better.
MAX_RANKED_BY_COMMON_WORDS = 1_000
UNRANKED_SCORE = 1e-9  # the score of a text that was found but not ranked
_COLUMNS = ("docs", "ids", "parents", "parent_docs", "sources", "matrix")


class SearchDatabase(Protocol):
    """The database that search needs: named queries, and the full-text search of its dialect."""

    def read(self, name: str, *parameters: Any) -> Any: ...

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    def in_transaction(self) -> bool: ...

    @property
    def fulltext(self) -> FullText: ...


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A full-text query: any of the wanted terms, none of the unwanted, in documents that pass all filters."""

    wanted: Sequence[str]
    unwanted: Sequence[str]
    collection: str
    titles: bool = True
    source: str | None = None
    filters: Sequence[Filter] = ()
    limit: int | None = None
    besides: Sequence[str] = ()  # documents whose scores are returned, too, if they are found, whatever their rank


class FullText(Protocol):
    """A module that searches the texts of a database."""

    def match(self, db: SearchDatabase, query: TextSearch) -> Matches:
        """Return the documents that match, best first."""

    def excerpts(
        self,
        db: SearchDatabase,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        collection: str,
        ids: Sequence[str],
    ) -> dict[str, tuple[str, str]]:
        """Return title and an excerpt of each document that a query finds, with marks around what matches."""


class SearchQueries:
    db: SearchDatabase

    @cached_property
    def _vector_spaces(self) -> VectorSpaces:
        return VectorSpaces(self.db)

    def match(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        *,
        titles: bool = True,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        limit: int | None = None,
        besides: Sequence[str] = (),
    ) -> Matches:
        """Return all documents with any of the wanted words and phrases and none of the unwanted, best first.

        A filter is a key, a relation (`=`, `>=`, `<`, `like`) and a value. With a limit, only the best, and also
        those of `besides` that are found. A word that more than half of all texts have finds documents but does
        not rank them, unless the query has no other word; then it ranks the newest thousand. Documents that are
        not ranked come last, the newest first.
        """
        query = TextSearch(wanted, unwanted, _collection(document), titles, source, filters, limit, besides)
        return self.db.fulltext.match(self.db, query)

    def excerpts(
        self, wanted: Sequence[str], unwanted: Sequence[str], document: type[Document] | str, ids: Sequence[str]
    ) -> dict[str, tuple[str, str]]:
        """Return title and an excerpt of these documents, with marks around the words that match."""
        return self.db.fulltext.excerpts(self.db, wanted, unwanted, _collection(document), ids)

    def nearest(
        self,
        vector: bytes,
        document: type[Document] | str,
        *,
        model: str,
        parents: type[Document] | str,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        each_parent: bool = False,
        limit: int | None = None,
        among: Sequence[str] | None = None,
    ) -> list[VectorHit]:
        """Return the documents of a model's vector space, nearest first. Filters apply to their parents' keys.

        With `each_parent`, only the nearest document of each parent; with a limit, only the nearest of all; with
        `among`, only the documents of these parents.
        """
        import numpy as np  # searching needs it, storing does not

        identity = (model, _collection(document), _collection(parents), len(vector))
        if among is None:
            space = self._vector_spaces.space(identity)
        else:  # reading a few is faster than finding them among all
            space = _space_of(None, self.db.fetch("vectors_of_parents", *identity, list(among)), identity)
        chosen = np.ones(len(space.docs), dtype=bool)
        if source is not None:
            chosen &= space.sources == source
        for name, relation, value in filters:
            docs = np.array(self.db.read("docs_by_key", name, relation, [value]), dtype=np.int64)
            chosen &= np.isin(space.parent_docs, docs)
        wanted = np.frombuffer(vector, dtype="<f4")
        scores = np.full(len(space.matrix), -np.inf, dtype=np.float32)
        where = np.flatnonzero(chosen)
        # Not `@`: memory bandwidth is the limit here, and its threads slow each other down.
        if len(where) * 4 < len(space.matrix):  # copying a few rows is faster than comparing all
            scores[where] = np.einsum("ij,j->i", space.matrix[where], wanted)
        else:
            np.copyto(scores, np.einsum("ij,j->i", space.matrix, wanted), where=chosen)
        positions = space.best_of_parents(scores) if each_parent else np.arange(len(scores))
        positions = positions[chosen[positions]]
        if limit is not None and 0 < limit < len(positions):  # sort only the best
            found = scores[positions]
            positions = positions[found >= np.partition(found, -limit)[-limit]]
        order = positions[np.argsort(-scores[positions], kind="stable")][:limit]
        ids, of = space.ids[order].tolist(), space.parents[order].tolist()
        return list(map(VectorHit, ids, of, scores[order].tolist()))

    def ids_without_vector(
        self, document: type[Document] | str, model: str, *, after: str = "", limit: int = 500
    ) -> list[str]:
        return list(self.db.read("ids_without_vector", model, _collection(document), after, limit))


def _collection(document: type[Document] | str) -> str:
    return document if isinstance(document, str) else document.collection


@dataclass(frozen=True)
class VectorSpace:
    """The documents of one collection with their vectors, ordered by id. It is never changed, only replaced."""

    change: Any  # the last change that it includes, as the database counts changes
    docs: NDArray[np.int64]
    ids: NDArray[np.object_]
    parents: NDArray[np.object_]
    parent_docs: NDArray[np.int64]  # a document whose parent does not exist has a number of its own here
    sources: NDArray[np.object_]
    matrix: NDArray[np.float32]

    @cached_property
    def _groups(self) -> tuple[NDArray[np.intp], NDArray[np.intp], NDArray[np.intp]]:
        """All positions, those of one parent next to each other; where each parent starts, and its size."""
        import numpy as np

        positions = np.argsort(self.parent_docs, kind="stable")
        ordered = self.parent_docs[positions]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        return positions, starts, np.diff(starts, append=len(ordered))

    def best_of_parents(self, scores: NDArray[np.float32]) -> NDArray[np.intp]:
        """Return the position of the best document of each parent; the first one where scores are equal."""
        import numpy as np

        positions, starts, sizes = self._groups
        if not len(positions):
            return positions
        found = scores[positions]
        best = np.repeat(np.maximum.reduceat(found, starts), sizes)
        first = np.where(found == best, np.arange(len(found)), len(found))
        return np.sort(positions[np.minimum.reduceat(first, starts)])


class VectorSpaces:
    """Keeps the spaces that were used last. A result is as current as the database."""

    def __init__(self, db: SearchDatabase, clock: Callable[[], float] = time.monotonic) -> None:
        self._db, self._clock = db, clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[VectorSpace, float]] = OrderedDict()

    def space(self, identity: tuple[Any, ...]) -> VectorSpace:
        """Return the current space of a model, a collection, the collection of parents and a size of vectors."""
        # A transaction may see changes that are rolled back later: they must not be kept for other queries.
        if self._db.in_transaction():
            return self._read(identity)
        with self._lock:
            now = self._clock()
            space_before, used_at = self._kept.pop(identity, (None, now))
            if space_before is None or now - used_at > MAX_AGE_SECONDS:
                space = self._read(identity)
            else:
                space = self._updated(space_before, identity)
            if space.matrix.nbytes <= MAX_SPACE_BYTES:
                self._kept[identity] = space, now
            while len(self._kept) > MAX_SPACES:
                self._kept.popitem(last=False)
            return space

    def _read(self, identity: tuple[Any, ...]) -> VectorSpace:
        # Before the rows: what changes in between is read again next time.
        change = self._db.read("last_vector_change") or 0
        return _space_of(change, self._db.fetch("vectors", *identity), identity)

    def _updated(self, space_before: VectorSpace, identity: tuple[Any, ...]) -> VectorSpace:
        import numpy as np

        change, docs = self._db.read("vector_changes", space_before.change, MAX_CHANGES + 1)
        if not docs:
            return space_before
        if len(docs) > MAX_CHANGES:
            return self._read(identity)
        new = _space_of(change, self._db.fetch("vectors_of_docs", *identity, docs), identity)
        stays = ~np.isin(space_before.docs, np.array(docs, dtype=np.int64))
        positions = np.searchsorted(space_before.ids[stays], new.ids)
        pairs = ((getattr(space_before, name)[stays], getattr(new, name)) for name in _COLUMNS)
        return VectorSpace(change, *(np.insert(old, positions, added, axis=0) for old, added in pairs))


def _space_of(change: Any, rows: Sequence[tuple[Any, ...]], identity: tuple[Any, ...]) -> VectorSpace:
    import numpy as np

    return VectorSpace(
        change,
        np.array([row[0] for row in rows], dtype=np.int64),
        np.array([row[1] for row in rows], dtype=object),
        np.array([row[2] for row in rows], dtype=object),
        np.array([-row[0] if row[3] is None else row[3] for row in rows], dtype=np.int64),
        np.array([row[4] for row in rows], dtype=object),
        np.frombuffer(b"".join([row[5] for row in rows]), dtype="<f4").reshape(len(rows), identity[3] // 4),
    )
