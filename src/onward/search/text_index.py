"""Reads the packed full-text index, and keeps what has not changed: postings, counts of terms, columns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING, Any

from onward.search.index_writer import COLLECTION, DATE, WaitingText, column_of, dtype_of
from onward.search.postings import BLOCK_BITS, Posting, unpack_postings
from onward.search.text_snapshot import YEAR, Block, SearchDatabase, TextSnapshot, years_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

MAX_CACHED_COLUMNS = 64
MAX_CACHED_VALUES = 10_000  # of labels
MIN_CACHED, MAX_CACHED_POSTINGS = 5_000, 6_000_000  # of a term, and of all terms that are kept: 60 MB

_State = tuple[tuple[int, int], ...]


def _state(blocks: Sequence[Block]) -> _State:
    """Return what changes with the contents of blocks."""
    return tuple((block.texts, block.version) for block in blocks)


class TextIndex:
    """The full-text index of a database. It keeps the columns of blocks that have not changed."""

    def __init__(self, db: SearchDatabase) -> None:
        self._db = db
        self._spaces: dict[str, int] = {}
        self._values: dict[int, str] = {}
        self._postings: dict[tuple[int | None, str], tuple[_State, Posting]] = {}
        self._postings_size = 0
        self._counts: tuple[tuple[int | None, _State], dict[str, int]] = (None, ()), {}
        self._searched = False  # a process that searches once, such as a command, keeps no postings
        self._kept: dict[tuple[int, str], tuple[_State, NDArray[Any]]] = {}

    def snapshot(self, collection: str) -> TextSnapshot:
        db = self._db
        # What waits first: a text that is packed meanwhile is then read twice, and not missed.
        waiting = [WaitingText(row) for row in db.fetch("waiting_texts_of", collection)]
        space = self._space(collection)
        # What was removed before the blocks: once a block says so, it is not listed any more.
        removed = [number for (number,) in db.fetch("removed_texts", space)] if space is not None else []
        rows = db.fetch("text_blocks", space) if space is not None else []
        blocks = [
            Block(block, texts, live, count, version, stale > 0 or merged is not None)
            for block, texts, live, count, _, stale, version, merged in rows
        ]
        snapshot = TextSnapshot(db, collection, space, blocks, waiting, removed, self)
        if waiting and blocks:
            numbers: dict[int, int] = dict(db.fetch("numbers_of_docs", [text.doc for text in waiting]))
            # Not those that were packed after the blocks were read.
            snapshot.waiting = [
                text for text in waiting if numbers.get(text.doc, snapshot.packed) >= snapshot.packed
            ]
        return snapshot

    def _space(self, collection: str) -> int | None:
        if collection not in self._spaces:
            found = self._db.fetch("labels_of_values", COLLECTION, [collection])
            if not found:
                return None
            if self._db.in_transaction():  # it may be rolled back
                return int(found[0][1])
            self._spaces[collection] = found[0][1]
        return self._spaces[collection]

    def values_of(self, labels: Collection[int]) -> dict[int, str]:
        """Return the values of labels, which never change."""
        kept = self._values  # replaced, never changed: other threads may be reading it
        missing = [label for label in labels if label not in kept]
        found: dict[int, str] = dict(self._db.fetch("values_of_labels", missing)) if missing else {}
        if found and not self._db.in_transaction():
            self._values = found if len(kept) >= MAX_CACHED_VALUES else kept | found
        return {label: kept[label] for label in labels if label in kept} | found

    def postings_of(self, snapshot: TextSnapshot, terms: Collection[str]) -> dict[str, Posting]:
        """Return the postings of terms in packed texts. Long ones are kept from the second search on."""
        space, state = snapshot.space, _state(snapshot.blocks)
        found = {
            term: kept[1]
            for term in terms
            if (kept := self._postings.get((space, term))) is not None and kept[0] == state
        }
        rows: defaultdict[str, list[tuple[int, bytes]]] = defaultdict(list)
        if missing := sorted(term for term in terms if term not in found):
            numbers = [block.block for block in snapshot.blocks]
            for block, term, data in self._db.fetch("postings", space, numbers, missing):
                rows[term].append((block, data))
        for term, some in rows.items():
            posting = unpack_postings(some)
            if posting.numbers[-1] >= snapshot.packed:  # packed after the snapshot
                posting = posting.taken(posting.numbers < snapshot.packed)
            elif self._searched and len(posting.numbers) >= MIN_CACHED and not self._db.in_transaction():
                self._keep(space, term, state, posting)
            found[term] = posting
        self._searched = True
        return found

    def counts_of(self, snapshot: TextSnapshot, terms: Collection[str]) -> dict[str, int]:
        """Return how many packed texts have each term, also removed ones."""
        space, state = snapshot.space, _state(snapshot.blocks)
        kept_state, kept = self._counts  # replaced, never changed: other threads may be reading it
        if kept_state != (space, state):
            kept = {}
        found: dict[str, int] = {}
        if missing := sorted(term for term in terms if term not in kept):
            numbers = [block.block for block in snapshot.blocks]
            found = dict.fromkeys(missing, 0) | dict(self._db.fetch("term_counts", space, numbers, missing))
            if not self._db.in_transaction():
                self._counts = (space, state), (found if len(kept) >= MAX_CACHED_VALUES else kept | found)
        return {term: found[term] if term in found else kept[term] for term in terms}

    def _keep(self, space: int | None, term: str, state: _State, posting: Posting) -> None:
        if self._postings_size > MAX_CACHED_POSTINGS:
            self._postings, self._postings_size = {}, 0
        self._postings[space, term] = state, posting
        self._postings_size += len(posting.numbers)

    def column(self, space: int, blocks: Sequence[Block], name: str) -> NDArray[Any]:
        """Return the column of all packed texts; it is read again only if a block has changed."""
        state = _state(blocks)
        kept = self._kept.get((space, name))
        if kept is not None and kept[0] == state:
            return kept[1]
        whole = years_of(self.column(space, blocks, DATE)) if name == YEAR else self._read(space, blocks, name)
        if not self._db.in_transaction():
            if len(self._kept) >= MAX_CACHED_COLUMNS:
                self._kept.clear()
            self._kept[space, name] = state, whole
        return whole

    def _read(self, space: int, blocks: Sequence[Block], name: str) -> NDArray[Any]:
        import numpy as np

        whole = np.zeros((blocks[-1].block << BLOCK_BITS) + blocks[-1].texts, dtype=dtype_of(name))
        if name == DATE:
            whole[:] = np.nan
        for number, data in self._db.fetch("text_columns", space, name, [block.block for block in blocks]):
            column = column_of(name, data)
            start = number << BLOCK_BITS
            column = column[: max(0, len(whole) - start)]  # a text may have been packed meanwhile
            whole[start : start + len(column)] = column
        return whole
