"""A search finds each text once, with the similarity of its own vector, also while another process packs."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from onward.ledger.store import Store
from onward.model.ledger import IndexedVector
from onward.model.search_query import Term
from onward.search import fusion, index_writer, postings, text_index, text_snapshot, vector_codes
from onward.search.fusion import Ranking
from onward.search.index_writer import IndexWriter
from onward.search.vector_index import VectorSpace
from tests.store.library import indexed, pack_everything, place, rank, vector, write
from tests.support.disturbed_database import DisturbedDatabase
from tests.support.store_pages import Page, Stage, Word, page, word

SPACE, QUERY = VectorSpace("m", "words"), vector(1.0, 0.25)
PAGES = {  # the author, the text, and the vector of the page's word
    "a": ("Ada", "a red house", (1.0, 0.0)),
    "b": ("Bert", "a red boat", (0.0, 1.0)),
    "c": ("Ada", "a blue boat", (0.5, 0.5)),
    "d": ("Dora", "a red barn", (0.25, 0.5)),
    "e": ("Emil", "a red lighthouse", (0.5, 1.0)),
    "f": ("Ada", "a blue lighthouse", (0.75, 0.0)),
}
SIMILARITIES = {id: x + 0.25 * y for id, (_, _, (x, y)) in PAGES.items()}
Found = tuple[dict[str, float], int, dict[str, list[tuple[str, int]]]]
Search = Callable[[Store], object]


def packing(store: Store) -> list[Callable[[], object]]:
    """The steps of packing, as another process takes them, each a transaction."""
    writer = IndexWriter(store.db, store.atomically)
    steps = (writer._remove_texts, writer._pack_texts, writer._remove_vectors, writer._pack_vectors)
    return [*(lambda step=step: store.atomically(step) for step in steps), store.pack_index]


def found(ranking: Ranking) -> Found:
    assert len({hit.id for hit in ranking.hits}) == len(ranking.hits) == ranking.every
    return {hit.id: round(hit.similarity, 3) for hit in ranking.hits}, ranking.total, ranking.facets


def among(*ids: str) -> dict[str, float]:
    return {id: SIMILARITIES[id] for id in ids}


def by_words(store: Store) -> object:
    return found(rank(store, "red", facets=["author"]))[0].keys()


def by_words_and_vectors(store: Store) -> object:
    return found(rank(store, "red", vector=QUERY, space=SPACE))[0]


def by_vectors(store: Store) -> object:
    return found(rank(store, "zeppelin", vector=QUERY, space=SPACE))[0]


def by_vectors_of_an_author(store: Store) -> object:
    ranking = rank(store, "zeppelin", vector=QUERY, space=SPACE, filters=[("author", "=", "Ada")])
    return found(ranking)[0]


def by_filter(store: Store) -> object:
    return found(rank(store, filters=[("author", "~", "a")], facets=["author"]))[1:]


def by_prefix(store: Store) -> object:
    return found(rank(store, Term("light", prefix=True)))[0].keys()


def by_phrase(store: Store) -> object:
    return found(rank(store, Term("red lighthouse", phrase=True)))[0].keys()


def by_nearness(store: Store) -> object:
    return [(hit.parent, hit.score) for hit in store.nearest(QUERY, Word, model="m", parents=Page)]


def by_likeness(store: Store) -> object:
    similar = store.similar(store.texts(Page), "f", space=SPACE).hits
    return {hit.id for hit in similar}


SEARCHES: dict[Search, object] = {
    by_words: {"a", "b", "d", "e"},
    by_words_and_vectors: SIMILARITIES,
    by_vectors: SIMILARITIES,
    by_vectors_of_an_author: among("a", "c", "f"),
    by_filter: (4, {"author": [("Ada", 3), ("Dora", 1)]}),
    by_prefix: {"e", "f"},
    by_phrase: {"e"},
    by_nearness: sorted(SIMILARITIES.items(), key=lambda item: (-item[1], item[0])),
    by_likeness: {"a", "c", "d", "e"},
}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Blocks of few texts and vectors, of which all that are near at all are found."""
    monkeypatch.setattr(fusion, "GOOD_SIMILARITY", 0.0)
    monkeypatch.setattr(fusion, "MIN_SIMILARITY", 0.0)
    for module in (index_writer, text_index, text_snapshot, postings):
        monkeypatch.setattr(module, "BLOCK_BITS", 2)
    monkeypatch.setattr(index_writer, "BLOCK_TEXTS", 4)
    monkeypatch.setattr(index_writer, "MAX_PARTS", 2)
    monkeypatch.setattr(vector_codes, "BLOCK_VECTORS", 4)


def write_pages(stage: Stage, *ids: str) -> None:
    write(stage, *(indexed(id, PAGES[id][1], author=PAGES[id][0], title="") for id in ids))


def place_words(stage: Stage, *ids: str) -> None:
    place(stage, *(IndexedVector("words", f"of {id}", "m", vector(*PAGES[id][2])) for id in ids))


def nothing_is_packed(stage: Stage) -> None:
    stage.store.remove_documents([("pages", id) for id in PAGES])
    add_pages(stage)
    write_pages(stage, *PAGES)
    place_words(stage, *PAGES)


def some_are_new(stage: Stage) -> None:
    stage.store.remove_documents([("pages", id) for id in "ace"])
    pack_everything(stage.store)
    add_pages(stage)
    write_pages(stage, *"ace")
    place_words(stage, *"ace")


def some_are_written_again(stage: Stage) -> None:
    write_pages(stage, "a", "d", "e")
    place_words(stage, "b", "d")


def all_are_written_again(stage: Stage) -> None:
    write_pages(stage, *PAGES)
    place_words(stage, *PAGES)


def add_pages(stage: Stage) -> None:
    stage.store.add_documents([page(id) for id in PAGES])
    stage.store.add_documents([word(f"of {id}", parent=f"pages/{id}") for id in PAGES])


def long(*cases: object) -> list[object]:
    return [pytest.param(case, marks=pytest.mark.prove) for case in cases]


QUICK: tuple[Search, ...] = (by_words_and_vectors, by_vectors_of_an_author, by_filter, by_nearness)


@pytest.mark.parametrize("store", ("file", "postgres"), indirect=True)
@pytest.mark.parametrize("search", (*QUICK, *long(*(one for one in SEARCHES if one not in QUICK))))
@pytest.mark.parametrize(
    "prepare", (some_are_written_again, *long(nothing_is_packed, some_are_new, all_are_written_again))
)
@pytest.mark.parametrize("slowly", (True, *long(False)))
def test_a_search_finds_the_same_wherever_packing_comes_between_its_reads(
    stage: Stage, search: Search, prepare: Callable[[Stage], None], slowly: bool
) -> None:
    nothing_is_packed(stage)
    pack_everything(stage.store)
    reads = 0
    while True:
        prepare(stage)
        steps = packing(stage.store) if slowly else [lambda: pack_everything(stage.store)]
        disturbed = DisturbedDatabase(stage.store.db, reads, steps)
        searching = Store(disturbed, stage.clock)  # type: ignore[arg-type]  # it only reads
        assert search(searching) == SEARCHES[search], reads
        if len(disturbed.steps) == len(steps):
            break  # it was done before
        pack_everything(stage.store)
        reads += 1
    assert reads > 2
