"""Vector spaces in memory: read once, then only what has changed since."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.backends.relational.database import Database
from onward.model.search import Filter, VectorHit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_SPACES = 4
MOST_BYTES = 400_000_000
"""A larger space is read anew for each question."""
MOST_CHANGES = 20_000
"""After more changes than this it is quicker to read all of it."""
KEPT_SECONDS = 3_600.0
"""A space that nobody has asked for since is read anew: databases know only for a day what was removed."""


@dataclass(frozen=True, slots=True)
class Space:
    """Documents of one collection and where they lie, ordered by id; nobody changes it once it is made."""

    change: Any
    """Up to which changes are in it, in the words of the database."""
    docs: NDArray[np.int64]
    ids: NDArray[np.object_]
    parents: NDArray[np.object_]
    parent_docs: NDArray[np.int64]
    """Of one whose parent is not there: a number that no other has."""
    sources: NDArray[np.object_]
    matrix: NDArray[np.float32]
    families: Families


@dataclass(frozen=True, slots=True)
class Families:
    """Where children of the same parent are."""

    places: NDArray[np.intp]
    """Of all documents, those of each parent side by side."""
    starts: NDArray[np.intp]
    sizes: NDArray[np.intp]

    @classmethod
    def of(cls, parents: NDArray[np.int64]) -> Families:
        import numpy as np  # searching needs it, storing does not

        places = np.argsort(parents, kind="stable")
        ordered = parents[places]
        starts = np.flatnonzero(np.diff(ordered, prepend=ordered[:1] - 1))
        return cls(places, starts, np.diff(starts, append=len(places)))

    def best(self, scores: NDArray[np.float32]) -> NDArray[np.intp]:
        """The place of the best of each parent; of equal ones the first."""
        import numpy as np

        if not len(self.places):
            return self.places
        found = scores[self.places]
        best = np.repeat(np.maximum.reduceat(found, self.starts), self.sizes)
        first = np.where(found == best, np.arange(len(found)), len(found))
        return np.sort(self.places[np.minimum.reduceat(first, self.starts)])


class Spaces:
    """The spaces that were asked for last. What it answers is as new as what the database answers."""

    def __init__(self, db: Database, clock: Callable[[], float] = time.monotonic) -> None:
        self._db = db
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], tuple[Space, float]] = OrderedDict()

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
        """Documents of a space with their similarity, best first."""
        import numpy as np

        about = (model, collection, parents, len(vector))
        if among is None:
            space = self._space(about)
        else:  # a few are read quicker than they are found among all
            space = _made(None, self._db.fetch("space_among", *about, list(among)), about)
        chosen = np.ones(len(space.docs), dtype=bool)
        if source is not None:
            chosen &= space.sources == source
        for name, relation, value in filters:
            found = np.array(self._db.read("keyed_docs", name, relation, [value]), dtype=np.int64)
            chosen &= np.isin(space.parent_docs, found)
        scores = _compared(space.matrix, np.frombuffer(vector, dtype="<f4"), chosen)
        places = space.families.best(scores) if each_parent else np.arange(len(scores))
        order = _in_order(scores, places[chosen[places]], limit)
        ids, of = space.ids[order].tolist(), space.parents[order].tolist()
        return list(map(VectorHit, ids, of, scores[order].tolist()))

    def _space(self, about: tuple[Any, ...]) -> Space:
        # In a transaction there may be changes that never come true: those are nobody else's to know.
        if self._db.in_transaction():
            return self._read(about)
        with self._lock:
            now = self._clock()
            known, asked = self._kept.pop(about, (None, now))
            if known is None or now - asked > KEPT_SECONDS:
                space = self._read(about)
            else:
                space = self._brought_up(known, about)
            if space.matrix.nbytes <= MOST_BYTES:
                self._kept[about] = space, now
            while len(self._kept) > MOST_SPACES:
                self._kept.popitem(last=False)
            return space

    def _read(self, about: tuple[Any, ...]) -> Space:
        # Before the rows: what changes meanwhile is read again next time.
        change = self._db.read("last_placing") or 0
        return _made(change, self._db.fetch("space", *about), about)

    def _brought_up(self, known: Space, about: tuple[Any, ...]) -> Space:
        import numpy as np

        change, docs = self._db.read("placings", known.change, MOST_CHANGES + 1)
        if not docs:
            return known
        if len(docs) > MOST_CHANGES:
            return self._read(about)
        new = _made(change, self._db.fetch("space_of", *about, docs), about)
        stays = ~np.isin(known.docs, np.array(docs, dtype=np.int64))
        places = np.searchsorted(known.ids[stays], new.ids)
        docs, ids, parents, parent_docs, sources, matrix = (
            np.insert(getattr(known, name)[stays], places, getattr(new, name), axis=0)
            for name in ("docs", "ids", "parents", "parent_docs", "sources", "matrix")
        )
        return Space(change, docs, ids, parents, parent_docs, sources, matrix, Families.of(parent_docs))


def _made(change: Any, rows: Sequence[tuple[Any, ...]], about: tuple[Any, ...]) -> Space:
    import numpy as np

    width = about[3] // 4
    docs = np.array([row[0] for row in rows], dtype=np.int64)
    parent_docs = np.array([-row[0] if row[3] is None else row[3] for row in rows], dtype=np.int64)
    return Space(
        change,
        docs,
        np.array([row[1] for row in rows], dtype=object),
        np.array([row[2] for row in rows], dtype=object),
        parent_docs,
        np.array([row[4] for row in rows], dtype=object),
        np.frombuffer(b"".join([row[5] for row in rows]), dtype="<f4").reshape(len(rows), width),
        Families.of(parent_docs),
    )


def _compared(
    matrix: NDArray[np.float32], wanted: NDArray[np.float32], chosen: NDArray[np.bool_]
) -> NDArray[np.float32]:
    """The similarity of those that are chosen; of others, less than that of any."""
    import numpy as np

    # Not `@`: memory is what takes time here, and threads that wait for each other make it worse.
    scores = np.full(len(matrix), -np.inf, dtype=np.float32)
    where = np.flatnonzero(chosen)
    if len(where) * 4 < len(matrix):  # few: to copy them is quicker than to compare all
        scores[where] = np.einsum("ij,j->i", matrix[where], wanted)
    else:
        np.copyto(scores, np.einsum("ij,j->i", matrix, wanted), where=chosen)
    return scores


def _in_order(scores: NDArray[np.float32], places: NDArray[np.intp], limit: int | None) -> NDArray[np.intp]:
    """Places by their scores, best first, of equal ones the first; with a limit, no others are put in order."""
    import numpy as np

    if limit is not None and 0 < limit < len(places):
        found = scores[places]
        places = places[found >= np.partition(found, -limit)[-limit]]
    return places[np.argsort(-scores[places], kind="stable")][:limit]
