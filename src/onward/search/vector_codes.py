"""Codes of vectors: one bit for each direction, by which the nearest of a million are found in milliseconds.

A code is kept in 64-bit words, column by column, so that comparing a query with a block reads each word once. The
nearest codes are compared again by their signs and a scale, which says how far a vector is from the mean, then by
the vectors themselves. Without the scale, three times as many vectors must be read to find the same nearest ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_VECTORS = 1 << 14
NO_TEXT = 0xFFFF_FFFF  # The number of the text of a vector whose document has no parent with a text
CODES_OF_EACH = 25  # Codes that are compared by their signs, for each of the nearest vectors that are wanted
MULTIPLIED_CODES = 1_000  # at once; all of them would take 30 MB
MAX_CACHED_BYTES = 400_000_000
SpaceIdentity = tuple[str, str, int, int]  # Model, collection, bytes of a vector, label of the texts or 0
READ_BLOCKS = 8  # At a time: the driver holds a copy of what it reads


class CodeDatabase(Protocol):
    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    def in_transaction(self) -> bool: ...


class WritableCodeDatabase(CodeDatabase, Protocol):
    def send(self, name: str, *parameters: Any) -> None: ...


class CodeBlock(NamedTuple):
    docs: NDArray[np.int64]
    texts: NDArray[np.uint32]
    codes: NDArray[np.uint64]  # a row for each word of the codes
    scales: NDArray[np.float16]

    @classmethod
    def of(cls, docs: bytes, texts: bytes, codes: bytes, scales: bytes) -> CodeBlock:
        import numpy as np

        documents = np.frombuffer(docs, "<i8")
        words = np.frombuffer(codes, "<u8").reshape(-1, len(documents))
        return cls(documents, np.frombuffer(texts, "<u4"), words, np.frombuffer(scales, "<f2"))

    def joined(self, other: CodeBlock) -> CodeBlock:
        import numpy as np

        return CodeBlock(
            np.concatenate((self.docs, other.docs)),
            np.concatenate((self.texts, other.texts)),
            np.concatenate((self.codes, other.codes), axis=1),
            np.concatenate((self.scales, other.scales)),
        )

    def taken(self, chosen: slice | NDArray[np.bool_] | NDArray[np.intp]) -> CodeBlock:
        return CodeBlock(self.docs[chosen], self.texts[chosen], self.codes[:, chosen], self.scales[chosen])


class NearCode(NamedTuple):
    """Vectors whose codes are near to a query: their documents and texts, and an estimate of the similarity."""

    docs: NDArray[np.int64]
    texts: NDArray[np.int64]
    estimates: NDArray[np.float32]


def scales_of(vectors: NDArray[np.float32], mean: NDArray[np.float32]) -> NDArray[np.float16]:
    """Return the factor by which the signs of each vector come closest to its difference from the mean."""
    import numpy as np

    differences = np.abs(vectors - mean)
    sums = differences.sum(axis=1)
    squares = np.einsum("ij,ij->i", differences, differences)
    scales: NDArray[np.float16] = (squares / np.where(sums > 0.0, sums, 1.0)).astype("<f2")
    return scales


def encode(vectors: NDArray[np.float32], mean: NDArray[np.float32]) -> NDArray[np.uint64]:
    """Return the code of each vector: where it is larger than the mean of all. A row for each word."""
    import numpy as np

    size = len(mean)
    bits = np.zeros((len(vectors), -(-size // 64) * 64), dtype=np.bool_)
    np.greater(vectors, mean, out=bits[:, :size])
    words = np.packbits(bits, axis=1, bitorder="little").view("<u8")
    return np.ascontiguousarray(words.T)


def append(
    db: WritableCodeDatabase, identity: SpaceIdentity, vectors: Sequence[tuple[int, int | None, bytes]]
) -> None:
    """Add documents with the number of their text and their vector to the blocks of a space.

    The space is that of a model, a collection, a size of vectors in bytes, and a collection of texts that they
    belong to, for texts of two collections have the same numbers. It is made if there is none.
    """
    import numpy as np

    docs = np.array([doc for doc, *_ in vectors], dtype="<i8")
    texts = np.array([NO_TEXT if text is None else text for _, text, _ in vectors], dtype="<u4")
    matrix = np.frombuffer(b"".join(vector for *_, vector in vectors), "<f4").reshape(len(vectors), -1)
    if not db.fetch("vector_space", *identity):
        db.send("insert_vector_space", *identity, np.zeros(matrix.shape[1], "<f4").tobytes())
    ((space, stored_mean),) = db.fetch("vector_space", *identity)
    blocks = db.fetch("vector_blocks", space)
    number, count, version = blocks[-1] if blocks else (0, 0, 0)
    mean = np.frombuffer(stored_mean, "<f4")
    if len(blocks) <= 1:  # the first vectors tell too little about the mean of all: make it and the codes anew
        old_docs, old_texts, old_matrix = _first_block(db, space, identity, count)
        docs, texts = np.concatenate((old_docs, docs)), np.concatenate((old_texts, texts))
        matrix = np.concatenate((old_matrix, matrix))
    finite = np.isfinite(matrix).all(axis=1)  # one that is not would make the mean useless, and is near to nothing
    docs, texts, matrix = docs[finite], texts[finite], matrix[finite]
    if len(blocks) <= 1:
        mean = matrix.mean(axis=0, dtype=np.float64).astype("<f4") if len(matrix) else mean
        db.send("update_vector_space", space, mean.tobytes())
    new = CodeBlock(docs, texts, encode(matrix, mean), scales_of(matrix, mean))
    if len(blocks) > 1:
        if 0 < count < BLOCK_VECTORS:
            ((_, _, *stored),) = db.fetch("vector_block_contents", space, [number])
            new = CodeBlock.of(*stored).joined(new)
        elif count:
            number, version = number + 1, 0
    for start in range(0, len(new.docs), BLOCK_VECTORS):
        _save(db, space, number, version + 1, new.taken(slice(start, start + BLOCK_VECTORS)))
        number, version = number + 1, 0


def _first_block(
    db: CodeDatabase, space: int, identity: SpaceIdentity, count: int
) -> tuple[NDArray[np.int64], NDArray[np.uint32], NDArray[np.float32]]:
    """Return the documents, texts and vectors of the only block; those whose vectors are gone are left out."""
    import numpy as np

    model, _, size, _ = identity
    if not count:
        return np.zeros(0, "<i8"), np.zeros(0, "<u4"), np.zeros((0, size // 4), "<f4")
    ((_, _, *contents),) = db.fetch("vector_block_contents", space, [0])
    block = CodeBlock.of(*contents)
    stored = dict(db.fetch("bare_vectors", model, block.docs.tolist()))
    there = np.array([len(stored.get(doc, b"")) == size for doc in block.docs.tolist()], dtype=np.bool_)
    kept = block.taken(there)
    vectors = np.frombuffer(b"".join([stored[doc] for doc in kept.docs.tolist()]), "<f4")
    return kept.docs, kept.texts, vectors.reshape(len(kept.docs), size // 4)


def remove(db: WritableCodeDatabase, space: int, docs: Sequence[int]) -> None:
    """Remove the codes of these documents."""
    import numpy as np

    gone = np.array(docs, dtype=np.int64)
    for number, count, _ in db.fetch("vector_blocks", space):
        if not count:
            continue
        ((_, version, *stored),) = db.fetch("vector_block_contents", space, [number])
        block = CodeBlock.of(*stored)
        stays = ~np.isin(block.docs, gone)
        if not stays.all():
            _save(db, space, number, version + 1, block.taken(stays))


def _save(db: WritableCodeDatabase, space: int, number: int, version: int, block: CodeBlock) -> None:
    parts = (block.docs, block.texts, block.codes, block.scales)
    db.send("save_vector_block", space, number, len(block.docs), version, *(part.tobytes() for part in parts))


class CodeReader:
    """Reads the blocks of spaces; from the second search on, those that have not changed are kept."""

    def __init__(self, db: CodeDatabase) -> None:
        self._db = db
        self._kept: dict[tuple[int, int], tuple[int, CodeBlock]] = {}
        self._searched: set[int] = set()  # spaces; a process that searches once, such as a command, keeps nothing

    def blocks(self, space: int) -> Iterator[CodeBlock]:
        """Yield the blocks of a space, a few of which are read at a time."""
        # A block may have become empty: documents are removed, blocks stay.
        listed = {
            number: version for number, vectors, version in self._db.fetch("vector_blocks", space) if vectors
        }
        keeps = space in self._searched and not self._db.in_transaction()  # which may be rolled back
        self._searched.add(space)
        missing = []
        for number, version in listed.items():
            kept_version, block = self._kept.get((space, number), (None, None))
            if block is not None and kept_version == version:
                yield block
            else:
                missing.append(number)
        size = sum(block.codes.nbytes for _, block in list(self._kept.values()))
        for start in range(0, len(missing), READ_BLOCKS):
            some = missing[start : start + READ_BLOCKS]
            for number, version, docs, *stored in self._db.fetch("vector_block_contents", space, some):
                if not docs:
                    continue  # it became empty after it was listed
                block = CodeBlock.of(docs, *stored)
                if keeps and size < MAX_CACHED_BYTES:
                    self._kept[space, number] = version, block
                    size += block.codes.nbytes
                yield block


def nearest_codes(
    blocks: Iterable[CodeBlock],
    query: NDArray[np.float32],
    mean: NDArray[np.float32],
    limit: int,
    allowed: NDArray[np.bool_] | None = None,
    wanted: NDArray[np.bool_] | None = None,
    *,
    newer: bool = False,
) -> NearCode:
    """Return the vectors that are nearest by their codes; with `allowed`, only those of these texts.

    All vectors of `wanted` texts are returned besides them; with `newer`, also those of texts whose numbers are
    above. Blocks are looked at one by one, and only what may be among the nearest is kept.
    """
    import numpy as np

    code = encode(query[None, :], mean)[:, 0]
    near = _Nearest(CODES_OF_EACH * limit, 64 * len(code))
    others: list[CodeBlock] = []
    for block in blocks:
        distances = _distances(block.codes, code)
        likely = np.flatnonzero(distances <= near.cut)
        if allowed is not None:
            likely = likely[of_texts(block.texts[likely], allowed)]
        if len(likely):
            near.add(distances[likely], block.taken(likely))
        if wanted is not None and len(chosen := np.flatnonzero(of_texts(block.texts, wanted, newer=newer))):
            others.append(block.taken(chosen))
    # Those of wanted texts are returned in any case: their estimates are not needed.
    found = [NearCode(one.docs, one.texts.astype(np.int64), np.zeros(len(one.docs), np.float32)) for one in others]
    if (nearest := near.codes()) is not None:
        found.insert(0, _best(nearest, query, limit))
    return _joined(found)


def _distances(codes: NDArray[np.uint64], code: NDArray[np.uint64]) -> NDArray[np.uint16]:
    """Return in how many bits each code differs from another one."""
    import numpy as np

    bits = np.bitwise_count(codes ^ code[:, None])
    for first in range(0, len(bits), 3):  # the bits of three words fit into 8 bits, which are added much faster
        for other in bits[first + 1 : first + 3]:
            bits[first] += other
    total: NDArray[np.uint16] = bits[0].astype(np.uint16)
    for part in bits[3::3]:
        total += part
    return total


class _Nearest:
    """The nearest codes so far, and some more: they are sorted out when there are many."""

    def __init__(self, most: int, farthest: int) -> None:
        self.cut = farthest  # the distance up to which a code can be among the nearest
        self._most = most
        self._blocks: list[CodeBlock] = []
        self._distances: list[NDArray[np.uint16]] = []
        self._count = 0

    def add(self, distances: NDArray[np.uint16], block: CodeBlock) -> None:
        self._blocks.append(block)
        self._distances.append(distances)
        self._count += len(distances)
        if self._count > 2 * self._most:
            self._sort_out()

    def codes(self) -> CodeBlock | None:
        """Return the nearest codes, and those that are as near as the last of them."""
        if self._count > self._most:
            self._sort_out()
        return _all_of(self._blocks) if self._blocks else None

    def _sort_out(self) -> None:
        import numpy as np

        every = np.concatenate(self._distances)
        self.cut = int(np.partition(every, self._most - 1)[self._most - 1])
        near = np.flatnonzero(every <= self.cut)
        self._blocks, self._distances, self._count = [_all_of(self._blocks).taken(near)], [every[near]], len(near)


def _all_of(blocks: Sequence[CodeBlock]) -> CodeBlock:
    import numpy as np

    return CodeBlock(
        np.concatenate([block.docs for block in blocks]),
        np.concatenate([block.texts for block in blocks]),
        np.concatenate([block.codes for block in blocks], axis=1),
        np.concatenate([block.scales for block in blocks]),
    )


def _estimated(block: CodeBlock, query: NDArray[np.float32]) -> NearCode:
    """Return vectors with an estimate of their similarity to a query, by their signs and scales."""
    import numpy as np

    estimates = block.scales.astype(np.float32) * _products(block.codes, query)
    return NearCode(block.docs, block.texts.astype(np.int64), estimates.astype(np.float32))


def _best(block: CodeBlock, query: NDArray[np.float32], limit: int) -> NearCode:
    import numpy as np

    found = _estimated(block, query)
    if limit >= len(found.docs):
        return found
    best = np.argpartition(-found.estimates, limit)[:limit]
    return NearCode(found.docs[best], found.texts[best], found.estimates[best])


def _joined(every: Sequence[NearCode]) -> NearCode:
    import numpy as np

    none = NearCode(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0, np.float32))
    return NearCode(
        np.concatenate([one.docs for one in (none, *every)]),
        np.concatenate([one.texts for one in (none, *every)]),
        np.concatenate([one.estimates for one in (none, *every)]),
    )


def of_texts(texts: NDArray[np.uint32], chosen: NDArray[np.bool_], *, newer: bool = False) -> NDArray[np.bool_]:
    """Return which vectors are of chosen texts; with `newer`, also those of texts with higher numbers."""
    import numpy as np

    if not len(chosen) or int(texts.max(initial=0)) < len(chosen):
        return chosen[texts] if len(chosen) else np.full(len(texts), newer) & (texts != NO_TEXT)
    found = chosen.take(texts, mode="clip")
    others = texts >= len(chosen)
    found[others] = texts[others] != NO_TEXT if newer else False
    return found


def _products(codes: NDArray[np.uint64], query: NDArray[np.float32]) -> NDArray[np.float32]:
    """Return the product of the signs of each code (1 where a bit is set, else -1) and a query."""
    import numpy as np

    raw = np.ascontiguousarray(codes.T).view(np.uint8)
    products = np.empty(len(raw), dtype=np.float32)
    for start in range(0, len(raw), MULTIPLIED_CODES):
        some = slice(start, start + MULTIPLIED_CODES)
        bits = np.unpackbits(raw[some], axis=1, bitorder="little")[:, : len(query)]
        products[some] = bits.astype(np.float32) @ query
    products *= np.float32(2.0)
    products -= query.sum()
    return products
