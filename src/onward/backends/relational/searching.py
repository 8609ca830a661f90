"""Searching vectors exactly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from onward.backends.relational.database import Database
from onward.model.search import Filter, VectorHit

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Ranked:
    """Places of what was compared, best first, and their scores."""

    order: NDArray[np.intp]
    scores: list[float]


def rank(scores: NDArray[np.float32], parents: NDArray[np.int64] | None) -> Ranked:
    """Put what was compared in order; with numbers of their parents, of each parent only the best."""
    import numpy as np  # searching needs it, storing does not

    if parents is None:
        order = np.argsort(-scores, kind="stable")
    elif not len(scores):
        order = np.empty(0, dtype=np.intp)
    else:
        # Families side by side: it is quicker to find the best of each than to put all in order.
        family = np.argsort(parents, kind="stable")
        starts = np.flatnonzero(np.diff(parents[family], prepend=parents[family[0]] - 1))
        found = scores[family]
        best = np.repeat(np.maximum.reduceat(found, starts), np.diff(starts, append=len(found)))
        first = family[np.minimum.reduceat(np.where(found == best, np.arange(len(found)), len(found)), starts)]
        first.sort()  # of equal ones the first comes first
        order = first[np.argsort(-scores[first], kind="stable")]
    return Ranked(order, scores[order].tolist())


def nearest(
    db: Database,
    vector: bytes,
    *,
    model: str,
    collection: str,
    parents: str,
    source: str | None,
    filters: Sequence[Filter],
    each_parent: bool,
) -> list[VectorHit]:
    """All documents of a model's space with their similarity, best first."""
    import numpy as np

    found = db.fetch("placed", model, collection, source, parents, list(filters))
    wanted = np.frombuffer(vector, dtype="<f4")
    rows = sorted((row for row in found if len(row[2]) == len(vector)), key=lambda row: str(row[0]))
    if not rows:
        return []
    matrix = np.frombuffer(b"".join([row[2] for row in rows]), dtype="<f4").reshape(len(rows), len(wanted))
    numbers: dict[str, int] = {}
    of = [numbers.setdefault(row[1] or f"/{row[0]}", len(numbers)) for row in rows] if each_parent else None
    best = rank(matrix @ wanted, None if of is None else np.array(of, dtype=np.int64))
    pairs = zip(best.order.tolist(), best.scores, strict=True)
    return [VectorHit(rows[place][0], rows[place][1], score) for place, score in pairs]
