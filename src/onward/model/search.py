"""What is asked of a search, and what it finds."""

from __future__ import annotations

from typing import NamedTuple

MARK_START, MARK_END = "\x02", "\x03"
"""What stands around a matching word in an excerpt, until somebody shows it."""


Filter = tuple[str, str, str | float]
"""Only documents whose key stands in a relation (`=`, `>=`, `<`, `like`) to a value."""


# Tuples: of these there is one for every document that may be meant.
class TextHit(NamedTuple):
    """A document that full text found; the higher its score, the better."""

    id: str
    score: float


class Matches(NamedTuple):
    """What full text found, best first: all of it, or the best."""

    hits: list[TextHit]
    total: int
    """How many there are, also of those that are not among the hits."""


class VectorHit(NamedTuple):
    """A document and its similarity to what was asked."""

    id: str
    parent: str
    """The id of the document it was made from."""
    score: float
