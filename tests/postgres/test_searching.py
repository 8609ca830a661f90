"""Writers and packers of the search index meet: nothing is lost, nothing is doubled, nothing old comes back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from onward.ledger.postgres import PostgresStore
from onward.ledger.unit_of_work import UnitOfWork
from onward.model.ledger import IndexedVector
from onward.search.index_writer import IndexWriter
from onward.search.vector_index import VectorSpace
from tests.postgres.stage import Asker, Meeting, Opener, at_once
from tests.store.library import fill_library, indexed, match, pack_everything, place, rank, vector, write
from tests.support.store_pages import Page, Stage, Word, page, word

Packing = Callable[[], int]


@pytest.fixture
def other(opened: Opener, postgres_store_url: str) -> PostgresStore:
    """The same store, as another process has it."""
    return opened(postgres_store_url)


@pytest.fixture
def library(stage: Stage) -> Stage:
    fill_library(stage)
    return stage


@pytest.fixture
def pack(store: PostgresStore) -> Packing:
    return partial(store.pack_index, everything=True)


def near(store: PostgresStore, *numbers: float) -> list[str]:
    return [hit.id for hit in store.nearest(vector(*numbers), Word, model="m", parents=Page)]


def move(stage: Stage, id: str, *numbers: float) -> None:
    place(stage, IndexedVector("words", id, "m", vector(*numbers)))


def settled(stage: Stage, other: PostgresStore, found: Callable[[PostgresStore], object]) -> object:
    """What is found, which is the same for another process, and after everything was packed twice."""
    assert isinstance(stage.store, PostgresStore)
    first = found(stage.store)
    assert found(other) == first
    for _ in range(2):
        pack_everything(stage.store)
        assert found(stage.store) == found(other) == first
    with stage.store.db.connections.use() as connection:
        codes = connection.execute(b"SELECT coalesce(sum(vectors), 0) FROM vector_blocks").fetchall()
        assert codes == connection.execute(b"SELECT count(*) FROM vectors").fetchall(), "each has one code"
    return first


def words_of(*asked: str) -> Callable[[PostgresStore], list[list[str]]]:
    return lambda store: [sorted(hit.id for hit in rank(store, one).hits) for one in asked]


# -- a writer comes while its text is being packed


def test_a_text_that_is_replaced_while_it_is_packed_is_found_as_it_is_now(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing
) -> None:
    meeting(pack, lambda: write(library, a="a green tent"))
    assert meeting.waited
    assert settled(library, other, words_of("house", "tent", "red")) == [[], ["a"], ["b"]]


@pytest.mark.parametrize("way", ("remove", "forget", "replace"))
def test_a_document_that_goes_while_it_is_packed_is_gone(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing, way: str
) -> None:
    ways: dict[str, Callable[[], object]] = {
        "remove": lambda: library.store.remove_documents([("pages", "a"), ("pages", "b")]),
        "forget": lambda: library.store.forget("s"),
        "replace": lambda: [library.store.replace_document(page(id, "new")) for id in "ab"],
    }
    meeting(pack, ways[way])
    assert meeting.waited
    assert settled(library, other, words_of("red", "boat")) == [[], ["c"]]
    assert settled(library, other, lambda store: near(store, 1, 0)) == ["of c"]


@pytest.mark.parametrize("numbers", ((0.0, 1.0), (5.0, 0.0)))
def test_a_vector_that_is_replaced_while_it_is_packed_is_found_where_it_is_now(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing, numbers: Sequence[float]
) -> None:
    meeting(pack, lambda: move(library, "of a", *numbers))
    assert meeting.waited
    order = ["of a", "of c", "of b"] if numbers[0] else ["of c", "of a", "of b"]
    assert settled(library, other, lambda store: near(store, 1, 0)) == order


def test_the_vectors_of_a_text_that_is_replaced_while_they_are_packed_are_still_found(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing
) -> None:
    meeting(pack, lambda: write(library, indexed("a", "a green tent", author="Zoe")))
    assert meeting.waited
    assert settled(library, other, by_vector_of_zoe) == ["a"]


def by_vector_of_zoe(store: PostgresStore) -> list[str]:
    space, filters = VectorSpace("m", "words"), [("author", "=", "Zoe")]
    return [hit.id for hit in rank(store, "none", vector=vector(1, 0), space=space, filters=filters).hits]


# -- a packer comes while a writer has not committed


def test_packing_passes_by_what_a_writer_holds(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing
) -> None:
    def write_and_move() -> None:
        write(library, a="a green tent")
        move(library, "of b", 9, 0)
        library.store.remove_documents([("pages", "c")])

    meeting(write_and_move, pack)
    assert not meeting.waited
    assert settled(library, other, words_of("house", "tent", "red", "boat")) == [[], ["a"], ["b"], ["b"]]
    assert settled(library, other, lambda store: near(store, 1, 0)) == ["of b", "of a"]


def test_packing_passes_by_what_a_writer_holds_of_packed_texts(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing
) -> None:
    pack_everything(library.store)
    test_packing_passes_by_what_a_writer_holds(library, other, meeting, pack)


def test_a_writer_that_gives_up_leaves_everything_as_it_was(
    library: Stage, other: PostgresStore, pack: Packing
) -> None:
    pack_everything(library.store)

    def give_up() -> None:
        write(library, a="a green tent", d="a tent")
        move(library, "of a", 0, 1)
        library.store.remove_documents([("pages", "b")])
        other.pack_index(everything=True)
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        library.store.atomically(give_up)
    assert settled(library, other, words_of("red", "tent")) == [["a", "b"], []]
    assert settled(library, other, lambda store: near(store, 1, 0)) == ["of a", "of c", "of b"]


# -- between the steps of packing


@pytest.mark.parametrize("before", ("_pack_texts", "_remove_vectors", "_pack_vectors"))
def test_what_is_committed_between_the_steps_of_packing_is_found(
    library: Stage, other: PostgresStore, pack: Packing, before: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Removing an old code and adding the new one are two transactions; a writer may come in between."""
    pack_everything(library.store)
    step = getattr(IndexWriter, before)
    written: list[str] = []

    def disturbed(writer: IndexWriter) -> int:
        if not written:
            written.append(before)
            library.store.add_documents([page("d"), word("of d", parent="pages/d")])
            write(library, indexed("d", "a tent", author="Zoe"))
            move(library, "of d", 9, 0)
            move(library, "of a", 0, 1)
            write(library, b="a tent")
        return int(step(writer))

    monkeypatch.setattr(IndexWriter, before, disturbed)
    pack()
    assert written
    assert settled(library, other, words_of("tent", "red")) == [["b", "d"], ["a"]]
    assert settled(library, other, by_vector_of_zoe) == ["d"]
    assert settled(library, other, lambda store: near(store, 1, 0)) == ["of d", "of c", "of a", "of b"]


# -- the vectors of a model are removed while others write


@pytest.fixture
def prune(other: PostgresStore) -> Callable[[], int]:
    return lambda: sum(other.remove_vectors(Word, "m"))


@pytest.mark.parametrize("packed", (False, True))
@pytest.mark.parametrize("recoded", (False, True))
def test_a_vector_that_is_written_while_its_model_is_removed_goes_or_stays_with_its_row(
    library: Stage,
    other: PostgresStore,
    meeting: Meeting,
    prune: Callable[[], int],
    packed: bool,
    recoded: bool,
) -> None:
    """The writer has not committed when the vectors are removed: its row waits, as it did before or newly."""
    if packed:
        pack_everything(library.store)
    if recoded:
        write(library, a="a green tent")
    _, removed = meeting(lambda: move(library, "of a", 9, 0), prune)
    assert removed == 3
    left = near(other, 1, 0)
    assert left in ([], ["of a"])
    assert settled(library, other, lambda store: near(store, 1, 0)) == left


@pytest.mark.parametrize("packed", (False, True))
def test_a_vector_that_is_removed_while_its_text_is_indexed_again_leaves_no_row(
    library: Stage, other: PostgresStore, meeting: Meeting, prune: Callable[[], int], packed: bool
) -> None:
    if packed:
        pack_everything(library.store)
    meeting(lambda: write(library, a="a green tent"), prune)
    assert settled(library, other, words_of("house", "tent")) == [[], ["a"]]
    assert settled(library, other, lambda store: near(store, 1, 0)) == []


@pytest.mark.parametrize("packed", (False, True))
def test_a_vector_that_is_written_after_its_model_was_removed_is_found(
    library: Stage, other: PostgresStore, meeting: Meeting, packed: bool
) -> None:
    """The vectors are removed, but not committed, when the writer comes."""
    if packed:
        pack_everything(library.store)
    meeting(lambda: sum(library.store.remove_vectors(Word, "m")), partial(_move_directly, other, "of a", 9.0, 0.0))
    assert settled(library, other, lambda store: near(store, 1, 0)) == ["of a"]


# -- two packers


def test_of_two_packers_the_second_waits_and_finds_nothing_left(
    library: Stage, other: PostgresStore, meeting: Meeting, pack: Packing
) -> None:
    before = words_of("red", "boat", "title")(other)
    packed, again = meeting(pack, partial(other.pack_index, everything=True))
    assert meeting.waited
    assert (packed, again) == (6, 0), "three texts and three vectors"
    assert settled(library, other, words_of("red", "boat", "title")) == before
    assert settled(library, other, lambda store: near(store, 1, 0)) == ["of a", "of c", "of b"]


@pytest.mark.prove
def test_writers_and_packers_at_the_same_time_lose_and_double_nothing(
    library: Stage, store: PostgresStore, opened: Opener, postgres_store_url: str, ask: Asker
) -> None:
    rounds, writers = 40, 4
    names = [[f"page {writer} {n}" for n in range(6)] for writer in range(writers)]
    library.store.add_documents([page(id) for some in names for id in some])
    library.store.add_documents([word(f"of {id}", parent=f"pages/{id}") for some in names for id in some])
    stores = [opened(postgres_store_url) for _ in range(writers + 2)]
    done: list[int] = []

    def write_often(number: int) -> None:
        mine = stores[number]
        for turn in range(rounds):
            for place_of, id in enumerate(names[number]):
                with mine.transaction():
                    _write_directly(mine, id, turn, float(1 + place_of), float(turn % 3))
        done.append(number)

    def pack_often(number: int) -> None:
        while len(done) < writers:
            stores[number].pack_index(everything=True)
            found = rank(stores[number], "lighthouse").hits
            assert len({hit.id for hit in found}) == len(found), "found twice"

    at_once(
        [
            *(partial(write_often, number) for number in range(writers)),
            *(partial(pack_often, number) for number in (writers, writers + 1)),
        ]
    )
    pack_everything(store)
    every = sorted(id for some in names for id in some)
    assert sorted(match(library, "lighthouse")) == every
    for turn in range(rounds):
        assert sorted(match(library, f"turn{turn}x")) == (every if turn == rounds - 1 else [])
    found = [id for id in near(store, 1, 0) if id.startswith("of page")]
    assert sorted(found) == sorted(f"of {id}" for id in every)
    schema = store.db.schema
    assert ask(f"SELECT sum(vectors) FROM {schema}.vector_blocks") == ask(f"SELECT count(*) FROM {schema}.vectors")


def _write_directly(store: PostgresStore, id: str, turn: int, *numbers: float) -> None:
    """Index a page and place its word, as a work does, without a ledger that would keep writers apart."""
    unit = UnitOfWork(store.db, store.now())
    unit.index_text(indexed(id, f"lighthouse turn{turn}x"))
    unit.index_vector(("words", f"of {id}"), "m", vector(*numbers))
    unit.write()


def _move_directly(store: PostgresStore, id: str, *numbers: float) -> None:
    """Give a word a new vector in a transaction of another process."""
    with store.transaction():
        unit = UnitOfWork(store.db, store.now())
        unit.index_vector(("words", id), "m", vector(*numbers))
        unit.write()
