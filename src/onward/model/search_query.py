"""Queries and results of a search."""

from __future__ import annotations

from typing import NamedTuple

MARK_START, MARK_END = "\x02", "\x03"  # Around a matching word in an excerpt; a page or terminal replaces them
# A condition: a facet or "date"; a relation (`=`, `contains`, `>=`, `<`); a value.
Filter = tuple[str, str, str | float]


class Term(NamedTuple):
    """A word or phrase of a query."""

    text: str
    field: str = ""  # Only in this field: `title`, or a name given to `work.index(fields=…)`; "" is anywhere
    phrase: bool = False  # The words must be adjacent, in this order
    prefix: bool = False  # Any word that begins so


class VectorHit(NamedTuple):
    """A document and its similarity to the query."""

    id: str
    parent: str  # The id of the document it was made from
    score: float
