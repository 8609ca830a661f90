"""Searching vectors exactly."""

from __future__ import annotations

from collections.abc import Sequence

from onward.backends.relational.database import Database
from onward.model.search import Filter, VectorHit


def nearest(
    db: Database,
    vector: bytes,
    *,
    model: str,
    collection: str,
    parents: str,
    source: str | None,
    filters: Sequence[Filter],
) -> list[VectorHit]:
    """All documents of a model's space with their similarity, best first."""
    import numpy as np  # searching needs it, storing does not

    found = db.fetch("placed", model, collection, source, parents, list(filters))
    wanted = np.frombuffer(vector, dtype="<f4")
    rows = [row for row in found if len(row[2]) == len(vector)]
    if not rows:
        return []
    matrix = np.frombuffer(b"".join([row[2] for row in rows]), dtype="<f4").reshape(len(rows), len(wanted))
    scores = (matrix @ wanted).tolist()
    hits = [VectorHit(row[0], row[1], score) for row, score in zip(rows, scores, strict=True)]
    hits.sort(key=lambda hit: (-hit.score, hit.id))
    return hits
