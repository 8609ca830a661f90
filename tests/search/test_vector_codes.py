"""Codes of vectors are added, removed and found; the nearest by codes are nearly always the nearest."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.search import vector_codes, vector_index
from onward.search.vector_codes import NO_TEXT, CodeBlock, CodeReader, encode, nearest_codes, of_texts, scales_of
from onward.search.vector_index import VectorIndex, VectorSpace

Matrix = NDArray[np.float32]
IDENTITY = ("m", "words", 12, 0)  # of vectors of three numbers


@pytest.fixture
def database() -> Iterator[SQLiteDatabase]:
    database = SQLiteDatabase(":memory:")
    yield database
    database.close()


def store_vectors(database: SQLiteDatabase, vectors: dict[int, Matrix]) -> None:
    database.bulk("insert_vectors", [(doc, "m", vector.tobytes()) for doc, vector in vectors.items()])


def document(doc: int) -> tuple[object, ...]:
    return (
        doc,
        "processed",
        0,
        None,
        None,
        None,
        0,
        0,
        None,
        1,
        None,
        None,
        f"{doc:06}",
        None,
        "words",
        0.0,
        0.0,
        None,
    )


def blocks_of(
    database: SQLiteDatabase, identity: vector_codes.SpaceIdentity = IDENTITY
) -> tuple[list[CodeBlock], Matrix]:
    """All blocks of a space, read anew, and its mean."""
    ((space, mean),) = database.fetch("vector_space", *identity)
    return list(CodeReader(database).blocks(space)), np.frombuffer(mean, "<f4")


# -- one code


@given(st.integers(1, 200), st.integers(1, 5), st.integers(0, 2**32 - 1))
def test_a_code_has_a_bit_for_each_direction(size: int, count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    vectors = random.standard_normal((count, size)).astype("<f4")
    mean = random.standard_normal(size).astype("<f4")
    codes = encode(vectors, mean)
    assert codes.shape == (-(-size // 64), count), "a row for each word"
    bits = np.unpackbits(np.ascontiguousarray(codes.T).view(np.uint8), axis=1, bitorder="little")
    assert (bits[:, :size].astype(bool) == (vectors > mean)).all()
    assert not bits[:, size:].any(), "what is left of a word is the same for all"


def test_a_scale_says_how_far_a_vector_is_from_the_mean() -> None:
    mean = np.array([1.0, 1.0], dtype="<f4")
    vectors = np.array([[1, 1], [2, 0], [4, -2]], dtype="<f4")
    assert scales_of(vectors, mean).tolist() == [0.0, 1.0, 3.0]


# -- blocks

numbers = st.floats(-100, 100, width=32)
a_vector = st.tuples(numbers, numbers, numbers)
steps = st.lists(
    st.tuples(st.just("add"), st.dictionaries(st.integers(1, 30), a_vector, min_size=1, max_size=12))
    | st.tuples(st.just("remove"), st.sets(st.integers(1, 30), min_size=1, max_size=20)),
    max_size=8,
)


@given(steps)
@settings(max_examples=60)
def test_blocks_have_each_vector_once_whatever_is_added_and_removed(
    steps: list[tuple[str, dict[int, tuple[float, ...]] | set[int]]],
) -> None:
    database = SQLiteDatabase(":memory:")
    expected: dict[int, Matrix] = {}
    with pytest.MonkeyPatch.context() as patched, database.transaction():
        patched.setattr(vector_codes, "BLOCK_VECTORS", 4)
        for _, given_docs in steps:
            if isinstance(given_docs, dict):
                new = {doc: np.array(one, dtype="<f4") for doc, one in given_docs.items() if doc not in expected}
                if not new:
                    continue
                store_vectors(database, new)
                added = [(doc, None if doc % 5 == 0 else doc * 2, one.tobytes()) for doc, one in new.items()]
                vector_codes.append(database, IDENTITY, added)
                expected |= new
            elif expected:
                ((space, _),) = database.fetch("vector_space", *IDENTITY)
                database.send("delete_vectors", sorted(given_docs))
                vector_codes.remove(database, space, sorted(given_docs))
                expected = {doc: one for doc, one in expected.items() if doc not in given_docs}
        if not database.fetch("vector_space", *IDENTITY):
            return
        blocks, mean = blocks_of(database)
        found = [doc for block in blocks for doc in block.docs.tolist()]
        assert sorted(found) == sorted(expected)
        assert all(0 < len(block.docs) <= 4 for block in blocks)
        for block in blocks:
            docs = block.docs.tolist()
            assert block.texts.tolist() == [NO_TEXT if doc % 5 == 0 else doc * 2 for doc in docs]
            vectors = np.stack([expected[doc] for doc in docs])
            assert (block.codes == encode(vectors, mean)).all(), "all codes are of the same mean"
            assert (block.scales == scales_of(vectors, mean)).all()
    database.close()


def test_blocks_that_have_not_changed_are_not_read_again(database: SQLiteDatabase) -> None:
    vectors = {doc: np.array([doc, 0, 1], dtype="<f4") for doc in range(1, 4)}
    with database.transaction():
        store_vectors(database, vectors)
        vector_codes.append(database, IDENTITY, [(doc, doc, one.tobytes()) for doc, one in vectors.items()])
    ((space, _),) = database.fetch("vector_space", *IDENTITY)
    reader = CodeReader(database)
    assert len(list(reader.blocks(space))) == 1
    assert not reader._kept, "who searches once keeps nothing"
    (first,) = reader.blocks(space)
    (again,) = reader.blocks(space)
    assert again is first
    with database.transaction():
        vector_codes.remove(database, space, [2])
        (inside,) = reader.blocks(space)
        assert inside.docs.tolist() == [1, 3], "inside of the transaction"
        vector_codes.remove(database, space, [99])
    (second,) = reader.blocks(space)
    assert second.docs.tolist() == [1, 3]
    with database.transaction():
        vector_codes.remove(database, space, [1, 3])
    assert list(reader.blocks(space)) == []


def test_no_more_is_kept_than_allowed(database: SQLiteDatabase, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_codes, "BLOCK_VECTORS", 2)
    monkeypatch.setattr(vector_codes, "MAX_CACHED_BYTES", 20)
    vectors = {doc: np.array([doc, 0, 1], dtype="<f4") for doc in range(1, 9)}
    with database.transaction():
        store_vectors(database, vectors)
        vector_codes.append(database, IDENTITY, [(doc, doc, one.tobytes()) for doc, one in vectors.items()])
    ((space, _),) = database.fetch("vector_space", *IDENTITY)
    reader = CodeReader(database)
    for _ in range(3):
        assert sorted(doc for block in reader.blocks(space) for doc in block.docs.tolist()) == list(range(1, 9))
    assert len(reader._kept) == 2, "of sixteen bytes each"


# -- finding


def clustered(count: int, size: int, seed: int = 7) -> Matrix:
    """Vectors of length 1 around 500 centres, as those of texts are around topics."""
    random = np.random.default_rng(seed)
    centres = np.random.default_rng(1).standard_normal((500, size)) + 0.5
    vectors = centres[random.integers(0, 500, count)] + 0.7 * random.standard_normal((count, size))
    found: Matrix = (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype("<f4")
    return found


def as_blocks(vectors: Matrix, mean: Matrix, per_block: int = 64) -> list[CodeBlock]:
    numbers = np.arange(len(vectors))
    return [
        CodeBlock(numbers[some], (numbers[some] * 2).astype("<u4"), encode(vectors[some], mean),
                  scales_of(vectors[some], mean))
        for some in (slice(start, start + per_block) for start in range(0, len(vectors), per_block))
    ]  # fmt: skip


@pytest.mark.parametrize("size", (3, 64, 100, 256))
def test_the_nearest_by_codes_are_those_of_the_highest_estimate(size: int) -> None:
    vectors = clustered(500, size)
    mean = vectors.mean(axis=0)
    query = clustered(1, size, seed=8)[0]
    signs = np.where(vectors > mean, 1.0, -1.0)
    estimates = scales_of(vectors, mean).astype(np.float32) * (signs @ query)
    found = nearest_codes(as_blocks(vectors, mean), query, mean, 1_000)
    assert sorted(found.docs.tolist()) == list(range(500)), "all of them, if all are wanted"
    assert found.texts.tolist() == [2 * doc for doc in found.docs.tolist()]
    assert found.estimates == pytest.approx(estimates[found.docs], rel=1e-4, abs=1e-5)
    some = nearest_codes(as_blocks(vectors, mean), query, mean, 20)
    assert sorted(some.estimates.tolist()) == pytest.approx(sorted(estimates)[-20:], rel=1e-4, abs=1e-5)


def test_only_the_nearest_codes_are_looked_at_closely(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vector_codes, "CODES_OF_EACH", 4)
    vectors = clustered(500, 64)
    mean = vectors.mean(axis=0)
    query = vectors[3]
    distances = (np.not_equal(vectors > mean, query > mean)).sum(axis=1)
    found = nearest_codes(as_blocks(vectors, mean), query, mean, 10)
    assert 3 in found.docs
    assert len(found.docs) == 10
    assert distances[found.docs].max() <= np.sort(distances)[40 - 1]


@given(st.sets(st.integers(0, 49)), st.integers(1, 60))
@settings(max_examples=40)
def test_only_vectors_of_allowed_texts_are_found(allowed: set[int], limit: int) -> None:
    vectors = clustered(50, 16)
    mean = vectors.mean(axis=0)
    mask = np.zeros(100, dtype=np.bool_)
    mask[[2 * doc for doc in allowed]] = True
    found = nearest_codes(as_blocks(vectors, mean, 8), vectors[0], mean, limit, mask)
    assert set(found.docs.tolist()) <= allowed
    assert len(found.docs) == min(limit, len(allowed))
    assert nearest_codes(as_blocks(vectors, mean, 8), vectors[0], mean, limit, mask[:0]).docs.tolist() == []


def test_texts_without_a_number_are_never_chosen() -> None:
    texts = np.array([0, 2, NO_TEXT, 5], dtype="<u4")
    assert of_texts(texts, np.ones(3, dtype=np.bool_)).tolist() == [True, True, False, False]
    assert of_texts(texts[:2], np.array([False, True, True])).tolist() == [False, True]
    assert of_texts(texts, np.zeros(0, dtype=np.bool_)).tolist() == [False] * 4


def test_of_nothing_nothing_is_near() -> None:
    mean = np.zeros(3, dtype="<f4")
    assert nearest_codes([], mean, mean, 5).docs.tolist() == []


@pytest.mark.parametrize("count", (3_000, 20_000))
def test_the_nearest_of_many_are_found_by_codes(
    database: SQLiteDatabase, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Recall at 10 against comparing every vector."""
    size = 96
    vectors = clustered(count, size)
    identity = ("m", "words", 4 * size, 0)
    with database.transaction():
        docs = range(1, count + 1)
        database.bulk("insert_documents", [document(doc) for doc in docs])
        database.bulk("insert_vectors", [(doc, "m", vectors[doc - 1].tobytes()) for doc in docs])
        for start in range(0, count, 4_000):
            some = [(doc, None, vectors[doc - 1].tobytes()) for doc in docs[start : start + 4_000]]
            vector_codes.append(database, identity, some)
    index = VectorIndex(database)
    found = 0
    queries = clustered(30, size, seed=9)
    for query in queries:
        best = {f"{doc + 1:06}" for doc in np.argsort(-(vectors @ query))[:10].tolist()}
        near = index.nearest(VectorSpace("m", "words"), query.tobytes(), 10)[:10]
        assert [one.score for one in near] == sorted((one.score for one in near), reverse=True)
        found += len(best & {one.id for one in near})
    assert found / (10 * len(queries)) >= 0.97
    monkeypatch.setattr(vector_index, "RESCORED", 10)
    fewer = index.nearest(VectorSpace("m", "words"), vectors[0].tobytes(), 10)
    assert len(fewer) == 10
    assert fewer[0].id == "000001", "a vector is nearest to itself"


@pytest.mark.parametrize("odd", (np.nan, np.inf, 1e30, -1e30))
def test_a_vector_of_odd_numbers_does_not_hide_the_others(database: SQLiteDatabase, odd: float) -> None:
    vectors = clustered(100, 16)
    vectors[7, 3] = odd
    with database.transaction():
        database.bulk("insert_documents", [document(doc) for doc in range(100)])
        store_vectors(database, dict(enumerate(vectors)))
        vector_codes.append(
            database, ("m", "words", 64, 0), [(d, None, one.tobytes()) for d, one in enumerate(vectors)]
        )
    near = VectorIndex(database).nearest(VectorSpace("m", "words"), vectors[0].tobytes(), 20)
    assert all(np.isfinite(one.score) for one in near)
    others = np.delete(np.arange(100), 7)
    best = others[np.argsort(-(vectors[others] @ vectors[0]))][:5].tolist()
    assert [one.id for one in near if one.id != "000007"][:5] == [f"{doc:06}" for doc in best]
