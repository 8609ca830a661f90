"""Vector spaces in memory: read once, then only what has changed since."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from onward.backends.relational.searching import rank
from onward.backends.sqlite.database import Database
from onward.model.search import Filter, VectorHit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

MOST_SPACES = 4
MOST_BYTES = 400_000_000
"""A larger space is read anew for each question."""
MOST_CHANGES = 20_000
"""After more changes than this it is quicker to read all of it."""


@dataclass(slots=True)
class Space:
    """Documents of one collection and where they lie, ordered by id; nobody changes it once it is made."""

    change: int
    docs: NDArray[np.int64]
    ids: NDArray[np.object_]
    parents: NDArray[np.object_]
    parent_docs: NDArray[np.int64]
    """Of one whose parent is not there: a number that no other has."""
    sources: NDArray[np.object_]
    matrix: NDArray[np.float32]


class Spaces:
    """The spaces that were asked for last. What it answers is as new as what the database answers."""

    def __init__(self, db: Database) -> None:
        self._db = db
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Any, ...], Space] = OrderedDict()

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
    ) -> list[VectorHit]:
        """All documents of a space with their similarity, best first."""
        import numpy as np  # searching needs it, storing does not

        space = self._space((model, collection, parents, len(vector)))
        chosen = np.ones(len(space.docs), dtype=bool)
        if source is not None:
            chosen &= space.sources == source
        for name, relation, value in filters:
            found = np.array(self._db.read("keyed_docs", name, relation, value), dtype=np.int64)
            chosen &= np.isin(space.parent_docs, found)
        wanted = np.frombuffer(vector, dtype="<f4")
        where = np.flatnonzero(chosen)
        matrix = space.matrix if len(where) == len(chosen) else space.matrix[where]
        best = rank(matrix @ wanted, space.parent_docs[where] if each_parent else None)
        order = where[best.order]
        return list(map(VectorHit, space.ids[order].tolist(), space.parents[order].tolist(), best.scores))

    def _space(self, about: tuple[Any, ...]) -> Space:
        # In a transaction there may be changes that never come true: those are nobody else's to know.
        if self._db.in_transaction():
            return self._read(about)
        with self._lock:
            known = self._kept.pop(about, None)
            space = self._read(about) if known is None else self._brought_up(known, about)
            if space.matrix.nbytes <= MOST_BYTES:
                self._kept[about] = space
            while len(self._kept) > MOST_SPACES:
                self._kept.popitem(last=False)
            return space

    def _read(self, about: tuple[Any, ...]) -> Space:
        # Before the rows: what changes meanwhile is read again next time.
        change = self._db.read("last_placing") or 0
        return _made(change, self._db.fetch("space", *about), about)

    def _brought_up(self, known: Space, about: tuple[Any, ...]) -> Space:
        import numpy as np

        change, docs = self._db.read("placings", known.change)
        if not docs:
            return known
        if len(docs) > MOST_CHANGES:
            return self._read(about)
        new = _made(change, self._db.fetch("space_of", *about, docs), about)
        stays = ~np.isin(known.docs, np.array(docs, dtype=np.int64))
        places = np.searchsorted(known.ids[stays], new.ids)
        return Space(
            change,
            *(
                np.insert(getattr(known, name)[stays], places, getattr(new, name), axis=0)
                for name in ("docs", "ids", "parents", "parent_docs", "sources", "matrix")
            ),
        )


def _made(change: int, rows: Sequence[tuple[Any, ...]], about: tuple[Any, ...]) -> Space:
    import numpy as np

    width = about[3] // 4
    docs = np.array([row[0] for row in rows], dtype=np.int64)
    return Space(
        change,
        docs,
        np.array([row[1] for row in rows], dtype=object),
        np.array([row[2] for row in rows], dtype=object),
        np.array([-row[0] if row[3] is None else row[3] for row in rows], dtype=np.int64),
        np.array([row[4] for row in rows], dtype=object),
        np.frombuffer(b"".join([row[5] for row in rows]), dtype="<f4").reshape(len(rows), width),
    )
