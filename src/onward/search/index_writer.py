"""Packs texts and vectors that wait into the blocks that a search reads.

A commit only adds rows that wait, so that it stays quick and writers do not meet. Packing takes many of these
rows at a time and writes them in bulk. Each step is one transaction: after a crash, a text is either waiting or
packed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from onward.search import vector_codes
from onward.search.postings import (
    BLOCK_BITS,
    BLOCK_TEXTS,
    POSTING_BYTES,
    TextEntry,
    lengths,
    merge_postings,
    pack_postings,
    text_entry,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

T = TypeVar("T")

MIN_TEXTS, MIN_VECTORS = 1_000, 3_000  # From this number that wait, or are gone, on, both are packed
MAX_TEXTS, MAX_VECTORS = 1_000, 4_000  # Of one transaction
MAX_PARTS = 64  # The rows of a term in a block are merged when there are this many
MERGED_ROWS = 20_000  # Rows that one transaction merges
MAX_REMOVED = 20_000
REMOVED_SHARE = 0.25  # From this share of removed texts on, a block is written anew without them
NO_DATE = float("nan")
COLLECTION = "collection"  # The name of the labels of collections
LIVE, DATE = "live", "date"


class WritableDatabase(Protocol):
    """The statements of a database that packing needs."""

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    def read(self, name: str, *parameters: Any) -> Any: ...

    def send(self, name: str, *parameters: Any) -> None: ...

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None: ...

    def lock(self, kind: str, names: Sequence[str] = ("",)) -> bool: ...

    def in_transaction(self) -> bool: ...


class IndexWriter:
    """Packs what waits; `atomically` runs a step as one transaction."""

    def __init__(self, db: WritableDatabase, atomically: Callable[[Callable[[], T]], T]) -> None:
        self._db = db
        self._atomically: Callable[[Callable[[], Any]], Any] = atomically

    def pack(self, *, everything: bool = False) -> int:
        """Pack texts and vectors if many wait, or `everything`; return how many were packed."""
        db = self._db
        texts = max(db.read("waiting_texts_count"), db.read("removed_texts_count"))
        vectors = max(db.read("waiting_vectors_count"), db.read("removed_vectors_count"))
        packed = 0
        if texts >= MIN_TEXTS or vectors >= MIN_VECTORS or everything:
            # Texts first: the code of a vector refers to the number of its text.
            for step in (self._remove_texts, self._pack_texts, self._remove_vectors, self._pack_vectors):
                while some := self._atomically(step):
                    packed += some
        while db.fetch("full_text_blocks", BLOCK_TEXTS, MAX_PARTS):
            self._atomically(self._merge)
        return packed

    # -- texts

    def _pack_texts(self) -> int:
        db = self._db
        db.lock("search index")
        rows = db.fetch("waiting_texts", MAX_TEXTS)
        by_collection: defaultdict[str, list[WaitingText]] = defaultdict(list)
        for row in rows:
            waiting = WaitingText(row)
            by_collection[waiting.collection].append(waiting)
        for collection, texts in by_collection.items():
            space = self._labels(COLLECTION, [collection])[collection]
            blocks = db.fetch("text_blocks", space)
            block = TextBlock(db, space, *blocks[-1]) if blocks else TextBlock(db, space)
            start = 0
            while start < len(texts):
                if block.texts >= BLOCK_TEXTS:
                    block = TextBlock(db, space, block.block + 1)
                some = texts[start : start + BLOCK_TEXTS - block.texts]
                block.append(some, self._facet_labels(some))
                start += len(some)
        db.send("delete_waiting_texts", [row[0] for row in rows])
        return len(rows)

    def _facet_labels(self, texts: Sequence[WaitingText]) -> dict[tuple[str, str], int]:
        values: defaultdict[str, set[str]] = defaultdict(set)
        for text in texts:
            for name, value in text.facets.items():
                values[name].add(value)
        return {
            (name, value): label
            for name, some in values.items()
            for value, label in self._labels(name, sorted(some)).items()
        }

    def _labels(self, name: str, values: Sequence[str]) -> dict[str, int]:
        found: dict[str, int] = dict(self._db.fetch("labels_of_values", name, list(values)))
        if missing := [value for value in values if value not in found]:
            self._db.bulk("insert_labels", [(name, value) for value in missing])
            found |= dict(self._db.fetch("labels_of_values", name, missing))
        return found

    def _remove_texts(self) -> int:
        """Mark texts that are gone in their blocks."""
        db = self._db
        db.lock("search index")
        removed = 0
        for (space,) in db.fetch("spaces_with_removed_texts"):
            numbers = [number for (number,) in db.fetch("removed_texts", space)]
            rows = {row[0]: row for row in db.fetch("text_blocks", space)}
            for block in sorted({number >> BLOCK_BITS for number in numbers}):
                if block in rows:
                    slots = [number & (BLOCK_TEXTS - 1) for number in numbers if number >> BLOCK_BITS == block]
                    TextBlock(db, space, *rows[block]).remove(slots)
            db.send("delete_removed_texts", space, numbers)
            removed += len(numbers)
        return removed

    def _merge(self) -> None:
        """Merge the next rows of a block that has many parts or removed texts."""
        import numpy as np

        db = self._db
        db.lock("search index")
        found = db.fetch("full_text_blocks", BLOCK_TEXTS, MAX_PARTS)
        if not found:
            return  # another process has merged it
        space, number, merged = found[0]
        block = TextBlock(db, space, *next(row for row in db.fetch("text_blocks", space) if row[0] == number))
        live = block.columns()[LIVE]
        rows = db.fetch("postings_after", space, number, merged or "", MERGED_ROWS)
        by_term: defaultdict[str, list[bytes]] = defaultdict(list)
        firsts: dict[str, int] = {}
        for term, part, data in rows:
            by_term[term].append(data)
            firsts.setdefault(term, part)
        if len(rows) == MERGED_ROWS and len(by_term) > 1:
            by_term.pop(rows[-1][0])  # some of its parts may not have been read
        last = max(by_term, default=None)
        if live.all():
            changed = {term: merge_postings(parts) for term, parts in by_term.items() if len(parts) > 1}
        else:
            keep = live.astype(np.bool_)
            changed = {term: merge_postings(parts, keep) for term, parts in by_term.items()}
        if changed:
            db.send("delete_postings", space, number, list(changed))
            db.bulk(
                "insert_postings",
                [
                    (space, number, term, firsts[term], len(data) // POSTING_BYTES, data)
                    for term, data in changed.items()
                    if data
                ],
            )
        if not merged:  # the first step: what is added or removed during the others is counted again
            block.parts, block.stale = 1, 0
        block.merged = last if len(rows) == MERGED_ROWS else None
        block.save()

    # -- vectors

    def _pack_vectors(self) -> int:
        db = self._db
        db.lock("search index")
        locked = set(db.fetch("lock_waiting_vectors", MAX_VECTORS))
        # Read after they were locked: what a writer committed meanwhile is seen, and no other writer changes them.
        docs = list({doc for doc, _ in locked})
        rows = [row for row in db.fetch("waiting_vectors", docs) if row[:2] in locked] if docs else []
        groups: defaultdict[vector_codes.SpaceIdentity, list[tuple[int, int | None, bytes]]] = defaultdict(list)
        for doc, model, collection, texts, number, vector in rows:
            groups[model, collection, len(vector), texts or 0].append((doc, number, vector))
        for (model, collection, size, texts), vectors in groups.items():
            if size and size % 4 == 0:  # others are no vectors of 32-bit numbers, and near to nothing
                vector_codes.append(db, (model, collection, size, texts), vectors)
            db.send("settle_waiting_vectors", model, [doc for doc, *_ in vectors])
        return len(rows) + (self._settle_gone(locked, docs) if len(rows) < len(locked) else 0)

    def _settle_gone(self, locked: Collection[tuple[Any, ...]], docs: Sequence[int]) -> int:
        """Remove locked rows that have no vector any more; there would be more of them with time."""
        gone = [row for row in self._db.fetch("waiting_without_vector", docs) if row in locked]
        for model in {model for _, model in gone}:
            self._db.send("settle_waiting_vectors", model, [doc for doc, of in gone if of == model])
        return len(gone)

    def _remove_vectors(self) -> int:
        db = self._db
        db.lock("search index")
        gone: defaultdict[str, list[int]] = defaultdict(list)
        rows = db.fetch("removed_vectors", MAX_REMOVED)
        for model, doc in rows:
            gone[model].append(doc)
        for model, docs in gone.items():
            for space, _ in db.fetch("vector_spaces_of", model):
                vector_codes.remove(db, space, docs)
            db.send("delete_removed_vectors", model, docs)
        return len(rows)


class WaitingText:
    """A text that waits to be packed."""

    __slots__ = ("collection", "date", "doc", "entry", "facets")

    def __init__(self, row: Sequence[Any]) -> None:
        doc, collection, source, terms, weights, length, date, facets, title, text, quoted = row
        self.doc: int = doc
        self.collection: str = collection
        self.date = NO_DATE if date is None else float(date)
        self.facets: dict[str, str] = {name: str(value) for name, value in json.loads(facets).items() if value}
        if source:
            self.facets["source"] = source
        if terms is None:  # written by an earlier release
            self.entry = text_entry(title or "", text or "", quoted or "")
        else:
            self.entry = TextEntry(bytes(terms), bytes(weights), length)


class TextBlock:
    """A block of texts: its counts, and a column for each facet."""

    def __init__(
        self,
        db: WritableDatabase,
        space: int,
        block: int = 0,
        texts: int = 0,
        live: int = 0,
        words: float = 0.0,
        parts: int = 0,
        stale: int = 0,
        version: int = 0,
        merged: str | None = None,
    ) -> None:
        self._db, self.space, self.block = db, space, block
        self.texts, self.live, self.words, self.parts = texts, live, words, parts
        self.stale = stale  # texts that were removed, but still have postings
        self.version, self.merged = version, merged

    def columns(self) -> dict[str, NDArray[Any]]:
        stored = self._db.fetch("text_columns_of_block", self.space, self.block)
        return {name: column_of(name, data) for name, data in stored}

    def append(self, texts: Sequence[WaitingText], labels: dict[tuple[str, str], int]) -> None:
        import numpy as np

        db, size = self._db, self.texts + len(texts)
        columns = self.columns()
        new: dict[str, NDArray[Any]] = {
            LIVE: np.ones(len(texts), dtype=np.uint8),
            DATE: np.array([text.date for text in texts], dtype="<f8"),
        }
        for name in sorted({name for name, _ in labels}):
            values = [labels.get((name, text.facets.get(name, "")), 0) for text in texts]
            new[name] = np.array(values, dtype="<u4")
        for name in columns.keys() | new.keys():
            whole = np.zeros(size, dtype=dtype_of(name))
            if name in columns:
                whole[: self.texts] = columns[name]
            if name in new:
                whole[self.texts :] = new[name]
            columns[name] = whole
        self._save_columns(columns)
        packed = pack_postings([text.entry for text in texts], self.texts)
        db.bulk(
            # A part is named by the number of its first text, so that no other part ever has its name.
            "insert_postings",
            [
                (self.space, self.block, term, self.texts, len(data) // POSTING_BYTES, data)
                for term, data in packed
            ],
        )
        start = (self.block << BLOCK_BITS) + self.texts
        db.bulk("insert_text_numbers", [(text.doc, self.space, start + n) for n, text in enumerate(texts)])
        self.texts = size
        self.live += len(texts)
        self.words += float(lengths()[[text.entry.length for text in texts]].sum())
        self.parts += 1
        self.save()

    def remove(self, slots: Iterable[int]) -> None:
        columns = self.columns()
        live = columns[LIVE].copy()
        live[list(slots)] = 0
        self._save_columns({LIVE: live})
        before, self.live = self.live, int(live.sum())
        self.words *= self.live / before if before else 0.0
        self.stale += before - self.live
        if self.stale > self.texts * REMOVED_SHARE and self.merged is None:
            self.merged = ""
        self.save()

    def _save_columns(self, columns: dict[str, NDArray[Any]]) -> None:
        rows = [(self.space, self.block, name, column.tobytes()) for name, column in columns.items()]
        self._db.bulk("save_text_columns", rows)

    def save(self) -> None:
        self.version += 1
        counts = (self.texts, self.live, self.words, self.parts, self.stale, self.version)
        self._db.send("save_text_block", self.space, self.block, *counts, self.merged)


def dtype_of(column: str) -> str:
    return {LIVE: "u1", DATE: "<f8"}.get(column, "<u4")


def column_of(name: str, data: bytes) -> NDArray[Any]:
    import numpy as np

    return np.frombuffer(data, dtype=dtype_of(name))
