"""Filters and results of a search."""

from __future__ import annotations

from typing import NamedTuple

MARK_START, MARK_END = "\x02", "\x03"  # Around a matching word in an excerpt; a page or terminal replaces them
Filter = tuple[str, str, str | float]  # A condition: key of a document, relation (`=`, `>=`, `<`, `like`), value


# Tuples, because there is one for every document that is found.
class TextHit(NamedTuple):
    """A document that full text found; the higher its score, the better."""

    id: str
    score: float


class Matches(NamedTuple):
    """The result of a full-text search, best first: all matches, or the best."""

    hits: list[TextHit]
    total: int  # The number of all documents found, also those that are not among the hits


class VectorHit(NamedTuple):
    """A document and its similarity to the query."""

    id: str
    parent: str  # The id of the document it was made from
    score: float
