"""The packed form of the full-text index: the terms of one text, the postings of a term, columns of a block.

A posting has the number of a text within its block (16 bits), the weighted frequency of the term in tenths and the
length of the text as a code (8 bits each). Ranking needs nothing else, so a search reads only the postings of its
own terms.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BLOCK_BITS = 15
BLOCK_TEXTS = 1 << BLOCK_BITS  # Texts of a block: their numbers fit into 16 bits
POSTING_BYTES = 4
LENGTH_STEPS = 16  # Codes of a length while it doubles: a code is off by 2 % at most
MAX_TENTHS = 255
# How much a word counts by where it is, in tenths. Measured on a mailing list: with 10 for quoted words, a mail
# falls behind the replies that quote it.
TITLE_TENTHS, TEXT_TENTHS, QUOTED_TENTHS = 30, 10, 3
FIELD_TENTHS = {"from": 20}  # Of words in other fields; 10 if not named here
UNRANKED_FIELDS = frozenset({"to"})  # Words of these fields are found only if a query names the field


_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


class TextEntry(NamedTuple):
    """The terms of one text, ready to be packed."""

    terms: bytes  # Each term once, in order, with a line end before and after it
    weights: bytes  # The weighted frequency of each, in tenths
    length: int  # The code of its length in words


class Posting(NamedTuple):
    """The texts that have a term."""

    numbers: NDArray[np.int64]
    keys: NDArray[np.uint16]  # Frequency and length code, as an index into a table of scores

    def taken(self, chosen: NDArray[np.bool_]) -> Posting:
        return Posting(self.numbers[chosen], self.keys[chosen])


def text_entry(
    title: str, text: str, quoted: str = "", fields: Mapping[str, str] | None = None, language: str = ""
) -> TextEntry:
    """Return the terms of a text with their weights. A term of a field is also stored with the field's name."""
    from onward.search import words  # its patterns take longer to compile than a command that only reads needs

    titled = words.all_terms(title, language)
    weights: dict[str, int] = {}
    length = TITLE_TENTHS * len(titled)
    length += words.add_weights(weights, text, TEXT_TENTHS, language)
    length += words.add_weights(weights, quoted, QUOTED_TENTHS, language) if quoted else 0

    def add(terms: Iterable[str], tenths: int) -> None:
        for term in terms:
            weights[term] = weights.get(term, 0) + tenths

    add(titled, TITLE_TENTHS)
    prefix = field_prefix("title")
    weights |= {prefix + term: TEXT_TENTHS for term in titled}
    for name, value in (fields or {}).items():
        named = set(words.all_terms(value, language))
        prefix = field_prefix(name)
        add([prefix + term for term in named], TEXT_TENTHS)
        if name not in UNRANKED_FIELDS:
            add(named, FIELD_TENTHS.get(name, TEXT_TENTHS))
    ordered = sorted(weights)
    terms = "\n".join(["", *ordered, ""]) if ordered else ""
    tenths = bytes([min(weights[term], MAX_TENTHS) for term in ordered])
    return TextEntry(terms.encode(), tenths, length_code(length / TEXT_TENTHS))


def field_prefix(field: str) -> str:
    """Return what stands before the terms of a field. No other term begins with a colon, or has one."""
    return f":{field}:" if field else ""


def storable_text(text: str) -> str:
    """Return a text without NUL and lone surrogates, which databases cannot store."""
    return text if text.isascii() and "\0" not in text else _UNSTORABLE.sub("\ufffd", text)


def length_code(length: float) -> int:
    return min(255, round(LENGTH_STEPS * math.log2(1.0 + length)))


def lengths() -> NDArray[np.float64]:
    """Return the length that each code stands for."""
    import numpy as np

    return np.exp2(np.arange(256) / LENGTH_STEPS) - 1.0


def pack_postings(entries: Sequence[TextEntry], start: int) -> list[tuple[str, bytes]]:
    """Return each term of some texts with its postings, in order; the first text has the number `start`."""
    import numpy as np

    numbers_of_terms: dict[bytes, int] = {}
    codes: list[int] = []
    counts = np.zeros(len(entries), dtype=np.int64)
    for position, entry in enumerate(entries):
        terms = entry.terms.split(b"\n")[1:-1]
        counts[position] = len(terms)
        codes += [numbers_of_terms.setdefault(term, len(numbers_of_terms)) for term in terms]
    ordered = sorted(numbers_of_terms)  # in the order of the table, whose pages are then written once
    places = np.empty(len(ordered), dtype=np.int64)
    places[[numbers_of_terms[term] for term in ordered]] = np.arange(len(ordered))
    by_place = places[np.array(codes, dtype=np.int64)] if codes else np.zeros(0, dtype=np.int64)
    order = np.argsort(by_place, kind="stable")
    texts = np.repeat(np.arange(start, start + len(entries), dtype=np.int64), counts)[order].astype("<u2")
    weights = np.frombuffer(b"".join(entry.weights for entry in entries), dtype=np.uint8)[order]
    codes_of_lengths = np.repeat(np.array([entry.length for entry in entries], dtype=np.uint8), counts)[order]
    ends = np.searchsorted(by_place[order], np.arange(len(ordered)), side="right").tolist()
    text_bytes, weight_bytes, length_bytes = texts.tobytes(), weights.tobytes(), codes_of_lengths.tobytes()
    packed = []
    begin = 0
    for term, end in zip(ordered, ends, strict=True):
        data = text_bytes[2 * begin : 2 * end] + weight_bytes[begin:end] + length_bytes[begin:end]
        packed.append((term.decode(), data))
        begin = end
    return packed


def unpack_postings(rows: Iterable[tuple[int, bytes]]) -> Posting:
    """Return the postings of one term from its rows of block and data, in the order of blocks and parts."""
    import numpy as np

    numbers, keys = [], []
    for block, parts in groupby(rows, key=itemgetter(0)):
        texts, weights, codes = _joined([data for _, data in parts])
        numbers.append(np.frombuffer(texts, "<u2").astype(np.int64) + (block << BLOCK_BITS))
        pairs = np.empty((len(weights), 2), dtype=np.uint8)  # little-endian: the weight is the high byte
        pairs[:, 0], pairs[:, 1] = np.frombuffer(codes, np.uint8), np.frombuffer(weights, np.uint8)
        keys.append(pairs.view("<u2")[:, 0])
    if len(numbers) == 1:
        return Posting(numbers[0], keys[0])
    if not numbers:
        return Posting(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.uint16))
    return Posting(np.concatenate(numbers), np.concatenate(keys))


def _joined(parts: Sequence[bytes]) -> tuple[bytes, bytes, bytes]:
    """Return numbers, weights and length codes of several parts of a block, each joined."""
    sizes = [len(part) // POSTING_BYTES for part in parts]
    if len(parts) == 1:
        (part,), (size,) = parts, sizes
        return part[: 2 * size], part[2 * size : 3 * size], part[3 * size :]
    pairs = list(zip(parts, sizes, strict=True))
    return (
        b"".join([part[: 2 * size] for part, size in pairs]),
        b"".join([part[2 * size : 3 * size] for part, size in pairs]),
        b"".join([part[3 * size :] for part, size in pairs]),
    )


def merge_postings(parts: Sequence[bytes], keep: NDArray[np.bool_] | None = None) -> bytes:
    """Return the postings of several parts of a block as one, without those of texts that are not kept."""
    import numpy as np

    texts, weights, codes = _joined(parts)
    if keep is None:
        return texts + weights + codes
    kept = keep[np.frombuffer(texts, "<u2")]
    columns = (np.frombuffer(texts, "<u2"), np.frombuffer(weights, np.uint8), np.frombuffer(codes, np.uint8))
    return b"".join([column[kept].tobytes() for column in columns])


def find_in_entry(entry_terms: bytes, weights: bytes, term: bytes) -> int:
    """Return the weight of a term (between line ends) in an entry, or 0."""
    place = entry_terms.find(term)
    return weights[entry_terms.count(b"\n", 0, place)] if place >= 0 else 0
