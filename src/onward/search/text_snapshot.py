"""The texts of a collection at one time: the postings of their terms, their facets, dates and contents.

Packed texts have their numbers; texts that wait to be packed come after them. A search takes one snapshot, so that
all of its steps see the same texts.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from onward.search.folding import fold
from onward.search.index_writer import COLLECTION, DATE, LIVE, WaitingText, dtype_of
from onward.search.languages import LANGUAGES, rules
from onward.search.postings import BLOCK_BITS, Posting, find_in_entry, lengths, storable_text, unpack_postings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from onward.model.search_query import Filter

LANGUAGE = "language"
YEAR = "year"  # A column that is made of the dates
FIRST_OWN_LABEL = 1 << 31  # From here on, labels are those of a snapshot, for values that wait to be packed
PREFIX_TERMS = 50  # The most frequent terms that a prefix stands for


class SearchDatabase(Protocol):
    """The database that search needs."""

    def read(self, name: str, *parameters: Any) -> Any: ...

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    def in_transaction(self) -> bool: ...


class Block(NamedTuple):
    block: int
    texts: int
    live: int
    words: float
    version: int
    stale: bool  # whether it has postings of removed texts


class PackedTexts(Protocol):
    """What is packed, as the text index reads it."""

    def column(self, space: int, blocks: Sequence[Block], name: str) -> NDArray[Any]: ...

    def values_of(self, labels: Collection[int]) -> dict[int, str]: ...

    def postings_of(self, snapshot: TextSnapshot, terms: Collection[str]) -> dict[str, Posting]: ...

    def counts_of(self, snapshot: TextSnapshot, terms: Collection[str]) -> dict[str, int]: ...


def years_of(dates: NDArray[np.float64]) -> NDArray[np.uint32]:
    """Return the year of each date, 0 for none."""
    import numpy as np

    years = np.nan_to_num(dates).astype("datetime64[s]").astype("datetime64[Y]").astype(np.int64) + 1970
    return np.where(np.isfinite(dates), years.clip(0, FIRST_OWN_LABEL - 1), 0).astype(np.uint32)


@dataclass
class TextSnapshot:
    """The texts of a collection at one time, by their numbers."""

    db: SearchDatabase
    collection: str
    space: int | None
    blocks: Sequence[Block]
    waiting: Sequence[WaitingText]
    removed: Sequence[int]
    index: PackedTexts
    _columns: dict[str, NDArray[Any]] = field(default_factory=dict)
    _labels: dict[tuple[str, str], int] = field(default_factory=dict)
    _languages: tuple[str, ...] | None = None
    _texts_by_language: defaultdict[str, int] | None = None
    _docs: dict[int, int | None] = field(default_factory=dict)
    _stored: dict[int, tuple[str, str, str]] = field(default_factory=dict)  # by document

    @property
    def packed(self) -> int:
        """The number after that of the last packed text."""
        return (self.blocks[-1].block << BLOCK_BITS) + self.blocks[-1].texts if self.blocks else 0

    @property
    def size(self) -> int:
        return self.packed + len(self.waiting)

    @property
    def live_texts(self) -> int:
        return max(1, sum(block.live for block in self.blocks) - len(self.removed) + len(self.waiting))

    def average_length(self) -> float:
        total = sum(block.words for block in self.blocks)
        if self.waiting:
            total += float(lengths()[[text.entry.length for text in self.waiting]].sum())
        return max(1.0, total / max(1, sum(block.live for block in self.blocks) + len(self.waiting)))

    # -- terms

    def postings(self, terms: Collection[str]) -> dict[str, Posting]:
        """Return the postings of terms."""
        packed = self.index.postings_of(self, terms) if self.blocks else {}
        return {term: self._with_waiting(term, packed.get(term)) for term in terms}

    def counts(self, terms: Collection[str]) -> dict[str, int]:
        """Return how many texts have each term."""
        if self.has_removed():
            return {term: len(posting.numbers) for term, posting in self.postings(terms).items()}
        stored = self.index.counts_of(self, terms) if self.blocks else {}
        return {term: stored.get(term, 0) + len(self._waiting_with(term)) for term in terms}

    def has_removed(self) -> bool:
        """Return whether there are postings of removed texts."""
        return bool(self.removed) or any(block.stale for block in self.blocks)

    def _with_waiting(self, term: str, packed: Posting | None) -> Posting:
        import numpy as np

        if packed is None:
            packed = unpack_postings([])
        elif self.has_removed():
            # The rarity of a word is counted from its postings: a text that was replaced must not count each time.
            packed = packed.taken(self.column(LIVE)[packed.numbers].view(np.bool_))
        if not (more := self._waiting_with(term)):
            return packed
        added = np.array(more, dtype=np.int64)
        return Posting(
            np.concatenate((packed.numbers, added[:, 0])),
            np.concatenate((packed.keys, added[:, 1].astype(np.uint16))),
        )

    def _waiting_with(self, term: str) -> list[tuple[int, int]]:
        """Return the numbers of the waiting texts that have a term, with their keys of a posting."""
        marked = f"\n{term}\n".encode()
        return [
            (self.packed + place, weight << 8 | text.entry.length)
            for place, text in enumerate(self.waiting)
            if (weight := find_in_entry(text.entry.terms, text.entry.weights, marked))
        ]

    def terms_with_prefix(
        self, prefix: str, limit: int = PREFIX_TERMS, *, of_blocks: int | None = None
    ) -> list[tuple[str, int]]:
        """Return terms that begin so, with the number of their texts, the most frequent first.

        With `of_blocks`, only this number of blocks is read, the newest and older ones: enough for frequent terms.
        """
        counts: defaultdict[str, int] = defaultdict(int)
        if self.blocks:
            step = -(-len(self.blocks) // of_blocks) if of_blocks else 1
            numbers = [block.block for block in self.blocks[::-1][::step]]
            above = prefix[:-1] + chr(min(ord(prefix[-1]) + 1, 0x10FFFF))
            if "\ud800" <= above[-1] <= "\udfff":
                above = prefix[:-1] + "\ue000"
            counts.update(self.db.fetch("terms_between", self.space, numbers, prefix, above, limit))
        marked = f"\n{prefix}".encode()
        for text in self.waiting:
            place = text.entry.terms.find(marked)
            while place >= 0:
                end = text.entry.terms.index(b"\n", place + 1)
                counts[text.entry.terms[place + 1 : end].decode()] += 1
                place = text.entry.terms.find(marked, end)
        return sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:limit]

    # -- columns

    def column(self, name: str) -> NDArray[Any]:
        """Return the labels of a facet, the dates, or which texts are live, by number."""
        import numpy as np

        if name not in self._columns:
            if self.blocks and self.space is not None:
                packed = self.index.column(self.space, self.blocks, name)
            else:
                packed = np.zeros(0, dtype=dtype_of(name))
            last: NDArray[Any]
            if name == LIVE:
                last = np.ones(len(self.waiting), dtype=np.uint8)
            elif name in (DATE, YEAR):
                dates = np.array([text.date for text in self.waiting], dtype="<f8")
                last = years_of(dates) if name == YEAR else dates
            else:
                values = [text.facets.get(name, "") for text in self.waiting]
                labels = self._labels_of(name, set(values))
                last = np.array([labels[value] for value in values], dtype="<u4")
            column = np.concatenate((packed, last)) if len(last) else packed
            if name == LIVE and self.removed:
                column = column.copy()
                column[[number for number in self.removed if number < self.packed]] = 0
            self._columns[name] = column
        return self._columns[name]

    def _labels_of(self, name: str, values: set[str]) -> dict[str, int]:
        """Return the labels of values; values of waiting texts that have none yet get one for this snapshot."""
        missing = [value for value in values if value and (name, value) not in self._labels]
        if missing:
            found: dict[str, int] = dict(self.db.fetch("labels_of_values", name, missing))
            for value in missing:
                self._labels[name, value] = found.get(value, 0xFFFF_FFFF - len(self._labels))
        return {value: self._labels[name, value] if value else 0 for value in values}

    def values_of(self, name: str, labels: Iterable[int]) -> dict[int, str]:
        """Return the values of labels."""
        own = {label: value for (facet, value), label in self._labels.items() if facet == name}
        wanted = set(map(int, labels))
        stored = [label for label in wanted if label not in own and label < FIRST_OWN_LABEL]
        own |= self.index.values_of(stored)
        return {label: own[label] for label in wanted if label in own}

    def languages(self) -> tuple[str, ...]:
        """Return the languages of the store's texts, and English, as which unknown languages count."""
        if self._languages is None:
            stored = {value for _, value in self.db.fetch("labels_named", LANGUAGE)}
            stored |= {text.facets.get(LANGUAGE, "") for text in self.waiting}
            self._languages = tuple(sorted((stored & set(LANGUAGES)) | {"en"}))
        return self._languages

    def texts_in(self, languages: Collection[str]) -> int:
        """Return how many texts are in languages, which are named as `rules` names them."""
        import numpy as np

        if self._texts_by_language is None:
            column = self.column(LANGUAGE)
            labels: dict[int, str] = {0: "", **dict(self.db.fetch("labels_named", LANGUAGE))}
            labels |= {label: value for (facet, value), label in self._labels.items() if facet == LANGUAGE}
            self._texts_by_language = defaultdict(int)
            for label, value in labels.items():
                self._texts_by_language[rules(value)] += int(np.count_nonzero(column == np.uint32(label)))
        return sum(self._texts_by_language[language] for language in languages)

    def mask(self, filters: Sequence[Filter], unwanted: Sequence[Filter] = ()) -> NDArray[np.bool_]:
        """Return which texts are live, pass the filters, and none of the unwanted ones."""
        import numpy as np

        chosen = self.column(LIVE).astype(np.bool_)
        alternatives: defaultdict[str, list[Filter]] = defaultdict(list)
        for one in filters:
            if one[1] in (">=", "<"):
                chosen &= self._passing(one)
            else:
                alternatives[one[0]].append(one)
        for some in alternatives.values():
            chosen &= np.logical_or.reduce([self._passing(one) for one in some])
        for one in unwanted:
            chosen &= ~self._passing(one)
        return chosen

    def _passing(self, one: Filter) -> NDArray[np.bool_]:
        import numpy as np

        name, relation, value = one
        column = self.column(name)
        match relation:
            case ">=":
                passing = column >= float(value)  # false for texts without a date
            case "<":
                passing = column < float(value)
            case "=":
                wanted = storable_text(str(value))
                passing = column == self._labels_of(name, {wanted})[wanted]
            case _:
                part = fold(str(value))
                labels: dict[int, str] = dict(self.db.fetch("labels_named", name))
                labels |= {label: text for (facet, text), label in self._labels.items() if facet == name}
                fitting = [label for label, text in labels.items() if part in fold(text)]
                passing = np.isin(column, np.array(fitting, dtype=np.uint32))
        return passing

    def language_of(self, number: int) -> str:
        label = int(self.column(LANGUAGE)[number])
        return self.values_of(LANGUAGE, [label]).get(label, "")

    # -- documents

    def docs(self, numbers: Sequence[int]) -> dict[int, int]:
        """Return the documents of texts, by number; those that are gone are missing."""
        missing = [number for number in numbers if number < self.packed and number not in self._docs]
        if missing:
            self._docs |= dict.fromkeys(missing) | dict(self.db.fetch("docs_of_numbers", self.space, missing))
        found: dict[int, int] = {}
        for number in numbers:
            doc = self._docs[number] if number < self.packed else self.waiting[number - self.packed].doc
            if doc is not None:
                found[number] = doc
        return found

    def stored_texts(self, numbers: Sequence[int]) -> dict[int, tuple[str, str, str]]:
        """Return title, text and quoted text by number; those of a removed document are missing."""
        docs = self.docs(numbers)
        missing = [doc for doc in docs.values() if doc not in self._stored]
        if missing:
            self._stored |= {row[0]: row[1:] for row in self.db.fetch("texts_of_docs", missing)}
        return {number: self._stored[doc] for number, doc in docs.items() if doc in self._stored}

    def label(self) -> int:
        """Return the label of the collection, or 0; it may have got one since the snapshot."""
        if self.space is not None:
            return self.space
        found = self.db.fetch("labels_of_values", COLLECTION, [self.collection])
        return int(found[0][1]) if found else 0

    def packed_since(self) -> dict[int, int]:
        """Return the numbers that waiting texts were given since then, each with its number in this snapshot."""
        places = {text.doc: self.packed + place for place, text in enumerate(self.waiting)}
        return {number: places[doc] for doc, number in self.db.fetch("numbers_of_docs", list(places))}

    def ids(self, numbers: Sequence[int]) -> dict[int, str]:
        """Return the ids of the documents of texts, by number."""
        docs = self.docs(numbers)
        ids: Mapping[int, str] = dict(self.db.fetch("ids_of_docs", list(docs.values()))) if docs else {}
        return {number: ids[doc] for number, doc in docs.items() if doc in ids}

    def numbers(self, ids: Sequence[str]) -> dict[str, int]:
        """Return the numbers of documents that have a text, by id."""
        places = {text.doc: self.packed + place for place, text in enumerate(self.waiting)}
        found = {}
        for id, number, doc in self.db.fetch("numbers_of_ids", self.collection, list(ids)):
            if doc in places:
                found[id] = places[doc]
            elif number is not None and number < self.packed:
                found[id] = number
        return found
