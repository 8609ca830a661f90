"""Finds the nearest vectors: by their codes first, then by the vectors themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from onward.model.search_query import VectorHit
from onward.search.vector_codes import NO_TEXT, CodeReader, nearest_codes

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.search.text_snapshot import SearchDatabase, TextSnapshot

RESCORED = 800  # Vectors that are compared themselves, after their codes, to find the nearest ones
RESCORED_FOR_TEXTS = 40  # and to rank texts by words, too: the order of more of them changes nothing


class VectorSpace(NamedTuple):
    """The vectors of one model for the documents of a collection."""

    model: str
    collection: str

    def of(self, vector: bytes) -> tuple[str, str, int]:
        return self.model, self.collection, len(vector)


class ComparedVector(NamedTuple):
    """A document, its parent (`collection/id`) and the similarity of its vector to the query."""

    id: str
    parent: str | None
    score: float


class VectorIndex:
    """The vectors of a database."""

    def __init__(self, db: SearchDatabase) -> None:
        self._db = db
        self._codes = CodeReader(db)

    def nearest(self, space: VectorSpace, vector: bytes, limit: int) -> list[ComparedVector]:
        """Return the nearest vectors, best first."""
        import numpy as np

        query = np.frombuffer(vector, "<f4")
        identity = space.of(vector)
        # What waits first, as with texts.
        docs = [row[0] for row in self._db.fetch("waiting_vectors_of", *identity)]
        for number, mean, _ in self._db.fetch("searched_vector_spaces", *identity):
            blocks = self._codes.blocks(number)
            near = nearest_codes(blocks, query, np.frombuffer(mean, "<f4"), max(RESCORED, limit))
            docs += near.docs.tolist()
        return self._compared("vectors_of_docs", space, query, list(dict.fromkeys(docs)))

    def near_texts(
        self,
        space: VectorSpace,
        vector: bytes,
        texts: TextSnapshot,
        allowed: NDArray[np.bool_],
        others: NDArray[np.int64],
    ) -> dict[int, float]:
        """Return the similarity of the nearest vector of texts, by number: of the nearest, and of some others.

        The numbers of the texts are in the blocks, so that only the vectors themselves are read.
        """
        import numpy as np

        query = np.frombuffer(vector, "<f4")
        waiting = self._waiting(space.of(vector), texts)
        wanted = np.zeros(texts.size, dtype=np.bool_)
        wanted[others] = True
        # Not the texts that wait: a block has no number of them, but it may have those of texts packed meanwhile.
        packed, wanted = allowed[: texts.packed], wanted[: texts.packed]
        text_of: dict[int, int] = {}
        for number, mean, label in self._db.fetch("searched_vector_spaces", *space.of(vector)):
            if label != texts.label():
                continue  # numbers of other texts
            blocks = self._codes.blocks(number)
            near = nearest_codes(
                blocks,
                query,
                np.frombuffer(mean, "<f4"),
                RESCORED_FOR_TEXTS,
                packed,
                wanted,
                newer=bool(texts.waiting),
            )
            text_of.update(zip(near.docs.tolist(), near.texts.tolist(), strict=True))
        if any(text >= texts.packed for text in text_of.values()):
            places = texts.packed_since()
            # Numbers of texts that are not in the snapshot must not be taken for places of waiting texts.
            text_of = {
                doc: text if text < texts.packed else places.get(text, NO_TEXT) for doc, text in text_of.items()
            }
        text_of |= waiting  # a code of one that waits is old
        text_of = {doc: text for doc, text in text_of.items() if text != NO_TEXT and allowed[text]}
        rows = self._db.fetch("bare_vectors", space.model, list(text_of)) if text_of else []
        rows = [row for row in rows if len(row[1]) == query.nbytes]
        matrix = np.frombuffer(b"".join([row[1] for row in rows]), "<f4").reshape(len(rows), len(query))
        similarities: dict[int, float] = {}
        for (doc, _), score in zip(rows, (matrix @ query).tolist(), strict=True):
            if math.isfinite(score) and score > similarities.get(text_of[doc], -math.inf):
                similarities[text_of[doc]] = score
        return similarities

    def _waiting(self, identity: tuple[str, str, int], texts: TextSnapshot) -> dict[int, int]:
        """Return the documents whose vectors wait to be packed, with the numbers of their texts."""
        rows = self._db.fetch("waiting_vectors_of", *identity)
        places = {text.doc: texts.packed + place for place, text in enumerate(texts.waiting)} if rows else {}
        found = {}
        for doc, label, number, parent in rows:
            packed = number is not None and label == texts.space and number < texts.packed
            found[doc] = places.get(parent, number if packed else NO_TEXT)
        return found

    def of_parents(self, space: VectorSpace, vector: bytes, parents: Sequence[str]) -> list[ComparedVector]:
        """Return the vectors of documents that were made from these (`collection/id`), best first."""
        import numpy as np

        query = np.frombuffer(vector, "<f4")
        return self._compared("vectors_of_parents", space, query, list(parents))

    def mean_of_parent(self, space: VectorSpace, parent: str) -> bytes | None:
        """Return the mean of the vectors of a document's parts, of length 1."""
        import numpy as np

        vectors = [row[2] for row in self._db.fetch("vectors_of_parents", *space, [parent])]
        vectors = [vector for vector in vectors if len(vector) == len(vectors[0])]
        mean = np.frombuffer(b"".join(vectors), "<f4").reshape(max(1, len(vectors)), -1).sum(axis=0)
        length = float(np.linalg.norm(mean))
        return (mean / np.float32(length)).astype("<f4").tobytes() if length else None

    def _compared(
        self, statement: str, space: VectorSpace, query: NDArray[np.float32], wanted: Sequence[object]
    ) -> list[ComparedVector]:
        import numpy as np

        rows = self._db.fetch(statement, *space, list(wanted)) if wanted else []
        rows = [row for row in rows if len(row[2]) == query.nbytes]
        matrix = np.frombuffer(b"".join([vector for *_, vector in rows]), "<f4").reshape(len(rows), len(query))
        scores = (matrix @ query).tolist()
        found = [
            ComparedVector(id, parent, score)
            for (id, parent, _), score in zip(rows, scores, strict=True)
            if math.isfinite(score)
        ]
        return sorted(found, key=lambda one: (-one.score, one.id))


def as_hits(found: Sequence[ComparedVector], parents: str) -> list[VectorHit]:
    return [VectorHit(one.id, (one.parent or "").removeprefix(f"{parents}/"), one.score) for one in found]
