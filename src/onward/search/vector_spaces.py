"""Vector spaces in memory: read once, then updated by later changes."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.model.search_query import Filter, VectorHit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.search.fulltext import SearchDatabase

MAX_SPACES = 4
MAX_SPACE_BYTES = 400_000_000  # a larger space is read again for each query
MAX_CHANGES = 20_000  # after more changes than this it is faster to read the whole space again
MAX_AGE_SECONDS = 3_600.0
"""A space that was not used for this long is read again: a database remembers removed vectors only for a day."""


@dataclass(frozen=True, slots=True)
class VectorSpace:
    """The documents of one collection with their vectors, ordered by id. It is never changed, only replaced."""

    change: Any  # the last change that it includes, as the database counts changes
    docs: NDArray[np.int64]
    ids: NDArray[np.object_]
    parents: NDArray[np.object_]
    parent_docs: NDArray[np.int64]  # a document whose parent does not exist has a number of its own here
    sources: NDArray[np.object_]
    matrix: NDArray[np.float32]
    families: ParentGroups


@dataclass(frozen=True, slots=True)
class ParentGroups:
    """The positions of documents, grouped by parent."""

    positions: NDArray[np.intp]  # all positions, those of one parent next to each other
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, parents: NDArray[np.int64]) -> ParentGroups:
        import numpy as np  # searching needs it, storing does not

        positions = np.argsort(parents, kind="stable")
        ordered = parents[positions]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        return cls(positions, starts, np.diff(starts, append=len(positions)))

    def best(self, scores: NDArray[np.float32]) -> NDArray[np.intp]:
        """Return the position of the best document of each parent; the first one where scores are equal."""
        import numpy as np

        if not len(self.positions):
            return self.positions
        found = scores[self.positions]
        best = np.repeat(np.maximum.reduceat(found, self.starts), self.sizes)
        first = np.where(found == best, np.arange(len(found)), len(found))
        return np.sort(self.positions[np.minimum.reduceat(first, self.starts)])


class VectorSpaces:
    """Keeps the spaces that were used last. A result is as current as the database."""

    def __init__(self, db: SearchDatabase, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[VectorSpace, float]] = OrderedDict()

    def nearest(
        self,
        vector: bytes,
        *,
        model: str,
        collection: str,
        parents: str,
        source: str | None,
        filters: Sequence[Filter],
        each_parent: bool,
        limit: int | None,
        among: Sequence[str] | None,
    ) -> list[VectorHit]:
        """Return documents of a space with their similarity, best first."""
        import numpy as np

        identity = (model, collection, parents, len(vector))
        if among is None:
            space = self._space(identity)
        else:  # reading a few is faster than finding them among all
            space = _space_of(None, self._db.fetch("vectors_of_parents", *identity, list(among)), identity)
        chosen = np.ones(len(space.docs), dtype=bool)
        if source is not None:
            chosen &= space.sources == source
        for name, relation, value in filters:
            found = np.array(self._db.read("docs_by_key", name, relation, [value]), dtype=np.int64)
            chosen &= np.isin(space.parent_docs, found)
        scores = _similarity(space.matrix, np.frombuffer(vector, dtype="<f4"), chosen)
        positions = space.families.best(scores) if each_parent else np.arange(len(scores))
        order = _best_first(scores, positions[chosen[positions]], limit)
        ids, of = space.ids[order].tolist(), space.parents[order].tolist()
        return list(map(VectorHit, ids, of, scores[order].tolist()))

    def _space(self, identity: tuple[Any, ...]) -> VectorSpace:
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
        docs, ids, parents, parent_docs, sources, matrix = (
            np.insert(getattr(space_before, name)[stays], positions, getattr(new, name), axis=0)
            for name in ("docs", "ids", "parents", "parent_docs", "sources", "matrix")
        )
        return VectorSpace(change, docs, ids, parents, parent_docs, sources, matrix, ParentGroups.of(parent_docs))


def _space_of(change: Any, rows: Sequence[tuple[Any, ...]], identity: tuple[Any, ...]) -> VectorSpace:
    import numpy as np

    width = identity[3] // 4
    docs = np.array([row[0] for row in rows], dtype=np.int64)
    parent_docs = np.array([-row[0] if row[3] is None else row[3] for row in rows], dtype=np.int64)
    return VectorSpace(
        change,
        docs,
        np.array([row[1] for row in rows], dtype=object),
        np.array([row[2] for row in rows], dtype=object),
        parent_docs,
        np.array([row[4] for row in rows], dtype=object),
        np.frombuffer(b"".join([row[5] for row in rows]), dtype="<f4").reshape(len(rows), width),
        ParentGroups.of(parent_docs),
    )


def _similarity(
    matrix: NDArray[np.float32], vector: NDArray[np.float32], chosen: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """Return the similarity of the chosen rows; minus infinity for the others."""
    import numpy as np

    # Not `@`: memory bandwidth is the limit here, and its threads slow each other down.
    scores = np.full(len(matrix), -np.inf, dtype=np.float32)
    where = np.flatnonzero(chosen)
    if len(where) * 4 < len(matrix):  # copying a few rows is faster than comparing all
        scores[where] = np.einsum("ij,j->i", matrix[where], vector)
    else:
        np.copyto(scores, np.einsum("ij,j->i", matrix, vector), where=chosen)
    return scores


def _best_first(scores: NDArray[np.float32], positions: NDArray[np.intp], limit: int | None) -> NDArray[np.intp]:
    """Return positions by their scores, best first, stable for equal scores; with a limit, sort only the best."""
    import numpy as np

    if limit is not None and 0 < limit < len(positions):
        found = scores[positions]
        positions = positions[found >= np.partition(found, -limit)[-limit]]
    return positions[np.argsort(-scores[positions], kind="stable")][:limit]
