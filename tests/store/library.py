"""A small library of pages that can be found, and what tests ask of it."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from onward.ledger.store import Store
from onward.model.documents import Document
from onward.model.ledger import IndexedText, IndexedVector, NewDocument, Processed
from onward.model.search_query import Term
from onward.search.fusion import Ranking, RankingQuery
from onward.search.postings import text_entry
from onward.search.ranking import TextQuery
from tests.support.store_pages import Clock, Page, Stage, page, word

WAITING, PACKED, MIXED = "waiting", "packed", "mixed"


class Library(Stage):
    """A stage whose index is kept in one state: every search finds the same in each.

    `waiting`: nothing is ever packed. `packed`: everything is packed before each search. `mixed`: what
    `fill_library` wrote is packed, and all that comes later waits.
    """

    def __init__(self, store: Store, clock: Clock, index_state: str = WAITING) -> None:
        super().__init__(store, clock)
        self.index_state = index_state

    def pack(self) -> None:
        if self.index_state == PACKED:
            pack_everything(self.store)


def pack_everything(store: Store) -> None:
    store.pack_index(everything=True)
    assert store.db.read("waiting_texts_count") == store.db.read("waiting_vectors_count") == 0


def keyed(id: str, source: str | None = None, **keys: str | float) -> NewDocument:
    return page(id, keys=list(keys.items()), source=source)


def indexed(
    id: str,
    text: str = "",
    *,
    title: str | None = None,
    quoted: str = "",
    fields: Mapping[str, str] | None = None,
    date: float | None = None,
    collection: str = "pages",
    **facets: str,
) -> IndexedText:
    """A text as a work indexes it."""
    title = f"Title of {id}" if title is None else title
    entry = text_entry(title, text, quoted, fields, facets.get("language", ""))
    return IndexedText(collection, id, title, text, quoted, *entry, date=date, facets=json.dumps(facets))


def texts(**texts: str) -> list[IndexedText]:
    return [indexed(id, text) for id, text in texts.items()]


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def as_terms(wanted: Iterable[str | Term]) -> list[Term]:
    """Terms of a query; several words are a phrase, as if they had been typed in quotes."""
    return [one if isinstance(one, Term) else Term(one, phrase=" " in one) for one in wanted]


def text_query(wanted: Sequence[str | Term], **more: Any) -> TextQuery:
    terms = as_terms(wanted)
    required = [*as_terms(more.pop("required", ())), *(term for term in terms if term.phrase or term.field)]
    return TextQuery(terms, required=required, unwanted=as_terms(more.pop("unwanted", ())), **more)


def rank(
    store: Store, *wanted: str | Term, document: type[Document] = Page, limit: int = 1_000, **more: Any
) -> Ranking:
    """Search a collection; what is not about words, such as `sort`, goes to the ranking."""
    of_ranking = RankingQuery.__dataclass_fields__.keys()
    ranking = {name: more.pop(name) for name in list(more) if name in of_ranking}
    query = RankingQuery(text_query(wanted, **more), limit=limit, **ranking)
    return store.search(store.texts(document), query)


def match(stage: Stage, *wanted: str | Term, **more: Any) -> list[str]:
    if isinstance(stage, Library):
        stage.pack()
    found = rank(stage.store, *wanted, **more)
    assert found.every == len(found.hits) or "limit" in more
    return [hit.id for hit in found.hits]


def write(stage: Stage, *written: IndexedText, **texts_by_id: str) -> None:
    """Let pages be found by these texts, which are new, or take the place of old ones."""
    every = [*written, *texts(**texts_by_id)]
    stage.store.publish([stage.noticed()])
    delivery = stage.take(service="listening")
    stage.settle(delivery, Processed(), adds=[page(one.id) for one in every], texts=every)


def place(stage: Stage, *vectors: IndexedVector, **more: Any) -> None:
    """Give documents their vectors."""
    stage.store.publish([stage.noticed()])
    stage.settle(stage.take(service="listening"), Processed(), vectors=vectors, **more)


def fill_library(stage: Stage) -> None:
    """Write three pages that can be found, of two sources, and a word made of each."""
    stage.store.add_documents(
        [
            keyed("a", "s", author="Ada", date=1.0),
            keyed("b", "s", author="Bert", date=2.0),
            keyed("c", "t", author="Ada", date=3.0),
        ]
    )
    stage.publish("a", "b", "c")
    for delivery in stage.claim():
        ids = [one.id for one in delivery.inputs]
        places = {"a": vector(1, 0), "b": vector(0, 1), "c": vector(0.6, 0.8)}
        written = {
            "a": indexed("a", "a red house", author="Ada", date=1.0),
            "b": indexed("b", "a red boat", author="Bert", date=2.0),
            "c": indexed("c", "a blue boat", author="Ada", date=3.0),
        }
        stage.settle(
            delivery,
            Processed(ids),
            adds=[word(f"of {id}", parent=f"pages/{id}") for id in ids],
            texts=[written[id] for id in ids],
            vectors=[IndexedVector("words", f"of {id}", "m", places[id]) for id in ids],
        )
    if isinstance(stage, Library) and stage.index_state != WAITING:
        pack_everything(stage.store)
