"""Whatever is written, removed, packed and broken off in whatever order: a search finds what is there, once.

Hypothesis drives two stores on one database next to a plain model of the documents. Blocks are small, so that a
few documents fill several of them. After every step, both stores search by words, filters and vectors.
"""

from __future__ import annotations

import shutil
import tempfile
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from onward.ledger.dialect import Database
from onward.ledger.postgres.dialect import PostgresDatabase
from onward.ledger.sqlite.dialect import SQLiteDatabase
from onward.ledger.store import Store
from onward.ledger.unit_of_work import UnitOfWork
from onward.search import fusion, index_writer, postings, text_index, text_snapshot, vector_codes
from onward.search.vector_index import VectorSpace
from tests.store.library import indexed, rank, vector
from tests.support.crashing_database import Crash, FragileStore
from tests.support.disturbed_database import DisturbedDatabase
from tests.support.store_cleanup import sweep_store
from tests.support.store_pages import Clock, Page, Word, page, word

MEMORY = Path("/dev/shm")
SMALL: dict[ModuleType, dict[str, float]] = {
    fusion: {"GOOD_SIMILARITY": 0.0, "MIN_SIMILARITY": 0.0},  # every text that has a vector is found by it
    index_writer: {
        "BLOCK_BITS": 2, "BLOCK_TEXTS": 4, "MIN_TEXTS": 3, "MIN_VECTORS": 3, "MAX_TEXTS": 3, "MAX_VECTORS": 3,
        "MAX_PARTS": 3, "MERGED_ROWS": 12, "MAX_REMOVED": 2,
    },
    text_index: {"BLOCK_BITS": 2},
    text_snapshot: {"BLOCK_BITS": 2},
    postings: {"BLOCK_BITS": 2},
    vector_codes: {"BLOCK_VECTORS": 4, "READ_BLOCKS": 2},
}  # fmt: skip
SPACE, QUERY = VectorSpace("m", "words"), (1.0, 0.25)
COLOURS, AUTHORS, SOURCES = ("red", "green", "blue"), ("Ada", "Bert", "Zoe"), ("s", "t")
some_ids = st.lists(st.sampled_from([f"p{n}" for n in range(9)]), min_size=1, max_size=6, unique=True)
a_store = st.integers(0, 1)
never = st.just(0)
a_fuse = st.one_of(never, never, never, st.integers(1, 20))
a_longer_fuse = st.one_of(never, never, st.integers(1, 100))
a_vector = st.tuples(*[st.integers(1, 4).map(float)] * 2)


@dataclass(frozen=True)
class Known:
    """What is found of a page."""

    source: str
    colour: str = ""
    author: str = ""
    vector: tuple[float, ...] | None = None

    @property
    def similarity(self) -> float:
        return sum(a * b for a, b in zip(QUERY, self.vector, strict=True)) if self.vector else 0.0


class IndexMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patch = pytest.MonkeyPatch()
        for module, values in SMALL.items():
            for name, value in values.items():
                self.patch.setattr(module, name, value)
        self.clock = Clock()
        self.prepare()
        self.stores = [self.open_store() for _ in range(2)]
        self.pages: dict[str, Known] = {}

    @initialize(packed=some_ids, waiting=some_ids)
    def begin(self, packed: list[str], waiting: list[str]) -> None:
        for ids, colour in ((packed, "red"), (waiting, "blue")):
            self.pack(0, everything=True, fuse=0)
            self.write(ids, "s", colour, "Ada", (1.0, 2.0), indexes=True, number=0, fuse=0)

    def teardown(self) -> None:
        try:
            self.pack(0, everything=True, fuse=0)
            self.all_is_found()
        finally:
            for store in self.stores:
                store.close()
            self.clear_away()
            self.patch.undo()

    def prepare(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="onward-", dir=MEMORY if MEMORY.is_dir() else None))

    def open_store(self) -> FragileStore:
        return FragileStore(self.open_database(), self.clock)

    def open_database(self) -> Database:
        return SQLiteDatabase(self.folder / "onward.db")

    def clear_away(self) -> None:
        shutil.rmtree(self.folder)

    # -- what happens

    def change(self, number: int, fuse: int, pages: dict[str, Known], act: Callable[[UnitOfWork], object]) -> None:
        """Do something in one transaction. If it breaks off, nothing of it has happened."""
        store = self.stores[number]
        store.db.fuse = fuse
        try:
            with store.transaction():
                unit = UnitOfWork(store.db, store.now())
                act(unit)
                unit.write()
        except Crash:
            return
        finally:
            store.db.fuse = 0
        self.pages = pages

    @rule(
        ids=some_ids,
        source=st.sampled_from(SOURCES),
        colour=st.sampled_from(COLOURS),
        author=st.sampled_from(AUTHORS),
        place=st.none() | a_vector,
        indexes=st.booleans(),
        number=a_store,
        fuse=a_fuse,
    )
    def write(
        self,
        ids: list[str],
        source: str,
        colour: str,
        author: str,
        place: tuple[float, ...] | None,
        indexes: bool,
        number: int,
        fuse: int,
    ) -> None:
        """Add pages or write them again: their text, their vector, or both."""
        pages = dict(self.pages)
        for id in ids:
            pages.setdefault(id, Known(source))
            if indexes:
                pages[id] = replace(pages[id], colour=colour, author=author)
            if place:
                pages[id] = replace(pages[id], vector=place)

        def act(unit: UnitOfWork) -> None:
            for id in ids:
                unit.add(page(id, source=pages[id].source))
                unit.add(word(f"of {id}", source=pages[id].source, parent=f"pages/{id}"))
                if indexes:
                    unit.index_text(indexed(id, colour, title=id, author=author))
                if place:
                    unit.index_vector(("words", f"of {id}"), "m", vector(*place))

        self.change(number, fuse, pages, act)

    @rule(ids=some_ids, number=a_store, fuse=a_fuse)
    def remove(self, ids: list[str], number: int, fuse: int) -> None:
        left = {id: known for id, known in self.pages.items() if id not in ids}
        self.change(number, fuse, left, lambda unit: unit.remove([("pages", id) for id in ids]))

    @rule(source=st.sampled_from(SOURCES), number=a_store)
    def forget(self, source: str, number: int) -> None:
        self.stores[number].forget(source)
        self.pages = {id: known for id, known in self.pages.items() if known.source != source}

    @rule(number=a_store)
    def prune(self, number: int) -> None:
        list(self.stores[number].remove_vectors(Word, "m", page=2))
        self.pages = {id: replace(known, vector=None) for id, known in self.pages.items()}

    @rule(number=a_store, everything=st.booleans(), fuse=a_longer_fuse)
    def pack(self, number: int, everything: bool, fuse: int) -> None:
        store = self.stores[number]
        store.db.fuse = fuse
        try:
            store.pack_index(everything=everything)
        except Crash:
            return
        finally:
            store.db.fuse = 0
        if everything:
            for name in ("waiting_texts", "removed_texts", "waiting_vectors", "removed_vectors"):
                assert store.db.read(f"{name}_count") == 0, name
            vectors = sum(known.vector is not None for known in self.pages.values())
            assert store.vector_counts(Word).get("m", 0) == vectors, "each vector has one code"

    @rule(number=a_store, read=st.integers(0, 12))
    def pack_during_a_search(self, number: int, read: int) -> None:
        disturbed = DisturbedDatabase(
            self.stores[number].db, read, [lambda: self.stores[1 - number].pack_index(everything=True)]
        )
        self.check_vectors(Store(disturbed, self.clock))  # type: ignore[arg-type]  # it only reads

    @rule(number=a_store)
    def begin_a_new_process(self, number: int) -> None:
        self.stores[number].close()
        self.stores[number] = self.open_store()

    # -- what is found

    @invariant()
    def all_is_found(self) -> None:
        for store in self.stores:
            for colour in COLOURS:
                self.check_words(store, colour)
            self.check_filter(store)
            self.check_vectors(store)
            self.check_nearest(store)

    def texts(self) -> dict[str, Known]:
        return {id: known for id, known in self.pages.items() if known.colour}

    def check_words(self, store: Store, colour: str) -> None:
        found = rank(store, colour)
        wanted = sorted(id for id, known in self.texts().items() if known.colour == colour)
        assert (sorted(hit.id for hit in found.hits), found.every) == (wanted, len(wanted))

    def check_filter(self, store: Store) -> None:
        found = rank(store, filters=[("author", "=", "Ada"), ("author", "=", "Zoe")], facets=["author", "source"])
        wanted = {id: known for id, known in self.texts().items() if known.author in ("Ada", "Zoe")}
        assert sorted(hit.id for hit in found.hits) == sorted(wanted)
        assert found.total == len(wanted)
        assert dict(found.facets["author"]) == Counter(known.author for known in wanted.values())
        assert dict(found.facets["source"]) == Counter(known.source for known in wanted.values())

    def check_vectors(self, store: Store) -> None:
        found = rank(store, "zeppelin", vector=vector(*QUERY), space=SPACE)
        wanted = {id: known.similarity for id, known in self.texts().items() if known.vector}
        assert len(found.hits) == len(wanted)
        assert {hit.id: hit.similarity for hit in found.hits} == wanted

    def check_nearest(self, store: Store) -> None:
        found = store.nearest(vector(*QUERY), Word, model="m", parents=Page)
        wanted = sorted((-known.similarity, id) for id, known in self.pages.items() if known.vector)
        assert [(-hit.score, hit.parent) for hit in found] == wanted
        assert [hit.id for hit in found] == [f"of {id}" for _, id in wanted]


EXAMPLES = settings().max_examples
TestIndexMachine = IndexMachine.TestCase
TestIndexMachine.settings = settings(
    max_examples=EXAMPLES // 10, stateful_step_count=20, suppress_health_check=list(HealthCheck)
)


class PostgresIndexMachine(IndexMachine):
    """The same on PostgreSQL."""

    url: ClassVar[str]

    def prepare(self) -> None:
        sweep_store(self.url)

    def open_database(self) -> Database:
        return PostgresDatabase(self.url)

    def clear_away(self) -> None:
        """Leave it to the fixture."""


@pytest.fixture
def postgres_machine(postgres_store_url: str) -> None:
    PostgresIndexMachine.url = postgres_store_url


TestPostgresIndexMachine = pytest.mark.prove(
    pytest.mark.usefixtures("postgres_machine")(PostgresIndexMachine.TestCase)
)
TestPostgresIndexMachine.settings = settings(TestIndexMachine.settings, max_examples=EXAMPLES // 20)
