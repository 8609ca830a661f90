"""How many documents have a vector of each model, and which have none."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from onward.model.ledger import IndexedVector, Processed
from tests.support.store_pages import Page, Stage, Word, word


def _place(stage: Stage, model: str, ids: Sequence[str], *, adds: bool = False) -> None:
    """Give words a vector of a model, in a work of a page that is as good as any other."""
    stage.bring(page := f"{model} {' '.join(ids)}")
    vectors = [IndexedVector("words", id, model, np.ones(4, "<f4").tobytes()) for id in ids]
    new = [word(id, parent=None) for id in ids] if adds else []
    stage.settle(stage.take(), Processed([page]), adds=new, vectors=vectors)


def test_each_model_is_counted_by_itself_packed_or_not(stage: Stage) -> None:
    assert stage.store.vector_counts(Word) == {}
    _place(stage, "small", ["a", "b", "c"], adds=True)
    _place(stage, "large", ["b"])
    assert stage.store.vector_counts(Word) == {"small": 3, "large": 1}
    assert stage.store.vector_counts(Page) == {}
    stage.store.pack_index(everything=True)
    _place(stage, "large", ["c"])
    assert stage.store.vector_counts(Word) == {"small": 3, "large": 2}, "one of them waits to be packed"
    assert stage.store.ids_without_vector(Word, "large") == ["a"]


def test_a_vector_that_is_replaced_or_removed_is_not_counted_twice(stage: Stage) -> None:
    _place(stage, "small", ["a", "b"], adds=True)
    stage.store.pack_index(everything=True)
    _place(stage, "small", ["a"])
    assert stage.store.vector_counts(Word) == {"small": 2}
    stage.store.pack_index(everything=True)
    assert stage.store.vector_counts(Word) == {"small": 2}
    stage.bring("last")
    stage.settle(stage.take(), Processed(["last"]), removes=[("words", "b")])
    stage.store.pack_index(everything=True)
    assert stage.store.vector_counts(Word) == {"small": 1}


def test_the_vectors_of_one_model_are_removed_packed_or_not(stage: Stage) -> None:
    _place(stage, "small", ["a", "b", "c"], adds=True)
    _place(stage, "large", ["a", "b", "c"])
    stage.store.pack_index(everything=True)
    _place(stage, "small", ["b"])  # one waits to be packed again
    assert list(stage.store.remove_vectors(Word, "small", page=2)) == [2, 1]
    assert stage.store.vector_counts(Word) == {"large": 3}
    assert stage.store.ids_without_vector(Word, "small") == ["a", "b", "c"]
    assert list(stage.store.remove_vectors(Page, "large")) == [], "those of another collection stay"
    stage.store.pack_index(everything=True)
    assert stage.store.vector_counts(Word) == {"large": 3}
    _place(stage, "small", ["c"])
    stage.store.pack_index(everything=True)
    query = np.ones(4, "<f4").tobytes()
    assert [hit.id for hit in stage.store.nearest(query, Word, model="small", parents=Page)] == ["c"]
