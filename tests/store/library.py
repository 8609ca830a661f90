"""A small library of pages that can be found, and what tests ask of it."""

from __future__ import annotations

import struct

from onward.model.ledger import IndexedText, IndexedVector, NewDocument, Processed
from tests.support.store_pages import Page, Stage, page, word


def keyed(id: str, source: str | None = None, **keys: str | float) -> NewDocument:
    return page(id, keys=list(keys.items()), source=source)


def texts(**texts: str) -> list[IndexedText]:
    return [IndexedText("pages", id, f"Title of {id}", text) for id, text in texts.items()]


def vector(*numbers: float) -> bytes:
    return struct.pack(f"<{len(numbers)}f", *numbers)


def match(stage: Stage, *wanted: str, **more: object) -> list[str]:
    found = stage.store.match(wanted, more.pop("unwanted", ()), Page, **more)  # type: ignore[arg-type]
    assert found.total == len(found.hits) or "limit" in more
    return [hit.id for hit in found.hits]


def fill_library(stage: Stage) -> Stage:
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
        written = {"a": "a red house", "b": "a red boat", "c": "a blue boat"}
        stage.settle(
            delivery,
            Processed(ids),
            adds=[word(f"of {id}", parent=f"pages/{id}") for id in ids],
            texts=texts(**{id: written[id] for id in ids}),
            vectors=[IndexedVector("words", f"of {id}", "m", places[id]) for id in ids],
        )
    return stage
