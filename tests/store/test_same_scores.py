"""A search finds the same, with the same scores, on every store and in every state of the index."""

from __future__ import annotations

import math
import random
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from onward.backend_urls import open_store
from onward.ledger.store import Store
from onward.model.ledger import IndexedVector
from onward.model.search_query import Term
from onward.search import index_writer, vector_index
from onward.search.fusion import Ranking
from onward.search.vector_index import VectorSpace
from tests.store.library import Library, indexed, pack_everything, place, rank, vector, write
from tests.support.store_pages import Clock, Page, word

WORDS = [
    "harbour", "boat", "mast", "sail", "storm", "tide", "gauge", "pump", "valve", "leak", "railway", "station",
    "frozen", "winter", "garden", "rose", "read_message", "app.py", "ada@example.org", "naïve", "Zürich", "7",
    "2026", "the", "of", "and",
]  # fmt: skip
LANGUAGES = {"de": "die Häfen und Boote der Städte", "fr": "les bateaux des ports", "ja": "港は凍っている"}
SPACE = VectorSpace("m", "words")
QUERIES: dict[str, tuple[tuple[str | Term, ...], dict[str, Any]]] = {
    "one word": (("boat",), {}),
    "some words": (("harbours", "boat", "storm"), {}),
    "a vague query": (("leak", "valve", "pump", "zebra", "unicorn"), {}),
    "a phrase": (("storm tide",), {}),
    "a prefix": ((Term("sta", prefix=True), "gauge"), {}),
    "a field": ((Term("rose", field="title"),), {}),
    "a compound": (("read_message",), {}),
    "without a word": (("boat",), {"unwanted": ["sail"]}),
    "with a word": (("boat", "mast"), {"required": ["tide"]}),
    "filters": (("boat", "rose"), {"filters": [("author", "=", "author 2"), ("date", ">=", 3.0)]}),
    "a part of a facet": (("boat",), {"filters": [("author", "contains", "THOR 1")]}),
    "other languages": (("Hafen", "bateau", "凍って"), {}),
    "a list": ((), {"filters": [("author", "=", "author 3")]}),
    "by date": (("winter", "garden"), {"sort": "date"}),
    "groups": (("winter", "garden", "rose"), {"group": "thread"}),
    "vectors": (("winter", "railway"), {"vector": vector(0.6, 0.8), "space": SPACE}),
    "vectors and groups": (
        ("zebra",),
        {"vector": vector(1, 0), "space": SPACE, "group": "thread"},
    ),
}


STATES = ("waiting", "packed", "mixed", "merged")


def fill(library: Library, *, changed: bool) -> None:
    """Write 60 pages with words; if that is asked for, some of them change."""
    dice = random.Random(5)
    pages = []
    for n in range(60):
        text, title, quoted = (" ".join(dice.choices(WORDS, k=dice.randrange(most))) for most in (40, 5, 20))
        language = dice.choice(["", "", "", *LANGUAGES])
        text += f" {LANGUAGES.get(language, '')}"
        facets = {"author": f"author {n % 7}", "thread": f"thread {n % 11}", "language": language}
        facets = {name: value for name, value in facets.items() if value}
        fields = {"path": f"docs/{dice.choice(WORDS)}.txt"}
        pages.append(
            indexed(f"p{n}", text, title=title, quoted=quoted, fields=fields, date=float(n % 13), **facets)
        )
    write(library, *pages[:40])
    places = {f"p{n}": (math.cos(n), math.sin(n)) for n in range(60)}
    library.store.add_documents([word(f"of {id}", parent=f"pages/{id}") for id in places])
    place(library, *(IndexedVector("words", f"of {id}", "m", vector(*one)) for id, one in places.items()))
    if library.index_state != "waiting":
        pack_everything(library.store)
    write(library, *pages[40:])
    if changed:
        write(library, indexed("p3", "boat storm tide", author="author 2", date=4.0))
        library.store.remove_documents([("pages", "p5")])
        place(library, IndexedVector("words", "of p4", "m", vector(0.6, 0.8)))
    if library.index_state == "packed":
        pack_everything(library.store)


def found(url: str, index_state: str, *, changed: bool) -> dict[str, Ranking]:
    clock = Clock()
    store: Store = open_store(url, clock)
    with closing(store), pytest.MonkeyPatch.context() as patched:
        patched.setattr(vector_index, "RESCORED_FOR_TEXTS", 100)  # all of them: waiting vectors are all compared
        if index_state == "merged":  # in many small parts, which are merged, without what is gone
            patched.setattr(index_writer, "MAX_TEXTS", 3)
            patched.setattr(index_writer, "MAX_PARTS", 4)
            patched.setattr(index_writer, "MERGED_ROWS", 50)
            patched.setattr(index_writer, "REMOVED_SHARE", 0.0)
        fill(Library(store, clock, "packed" if index_state == "merged" else index_state), changed=changed)
        rankings = {
            name: rank(store, *wanted, explain=True, facets=["author", "year", "language", "source"], **more)
            for name, (wanted, more) in QUERIES.items()
        }
        rankings["similar texts"] = store.similar(store.texts(Page), "p8", space=SPACE, group="thread")
        return rankings


@pytest.mark.parametrize("index_state", STATES)
@pytest.mark.parametrize("changed", (False, True), ids=("written", "changed"))
def test_scores_are_the_same_on_both_databases(
    tmp_path: Path, postgres_store_url: str, index_state: str, changed: bool
) -> None:
    on_file = found(f"sqlite:///{tmp_path / 'onward.db'}", index_state, changed=changed)
    in_postgres = found(postgres_store_url, index_state, changed=changed)
    for name, ranking in on_file.items():
        assert ranking.hits, name
        same(name, ranking, in_postgres[name])


@pytest.mark.parametrize("index_state", STATES[1:])
@pytest.mark.parametrize("changed", (False, True), ids=("written", "changed"))
def test_scores_are_the_same_in_each_state_of_the_index(index_state: str, changed: bool) -> None:
    waiting = found("sqlite://:memory:", "waiting", changed=changed)
    other = found("sqlite://:memory:", index_state, changed=changed)
    for name, ranking in waiting.items():
        # A packed text that is gone still counts a little in how long texts are.
        same(name, ranking, other[name], within=5e-3 if changed else 1e-6)


def same(name: str, one: Ranking, other: Ranking, within: float = 1e-6) -> None:
    twins = {hit.id: hit for hit in other.hits}
    assert {hit.id for hit in one.hits} == twins.keys(), name
    for hit in one.hits:
        twin = twins[hit.id]
        numbers = (hit.score, hit.text_score, hit.similarity)
        assert numbers == pytest.approx((twin.score, twin.text_score, twin.similarity), abs=within), (name, hit.id)
        assert {reason.word for reason in hit.reasons} == {reason.word for reason in twin.reasons}
    assert (one.every, one.unknown, one.terms) == (other.every, other.unknown, other.terms)
    if within > 1e-6:
        return
    assert (one.total, [hit.id for hit in one.hits]) == (other.total, list(twins)), name
    assert {facet: sorted(values) for facet, values in one.facets.items()} == {
        facet: sorted(values) for facet, values in other.facets.items()
    }
