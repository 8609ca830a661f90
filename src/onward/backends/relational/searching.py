"""Full text, which each database has in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from onward.backends.relational.database import Database
from onward.model.search import Filter, Matches

NEWEST = 1_000
"""So many are ranked by words that tell nothing; more would take long, and be in no better order."""
LEAST_SCORE = 1e-9
"""Of what is found, but not ranked."""


@dataclass(frozen=True, slots=True)
class TextSearch:
    """What is looked for: any of the wanted terms, none of the others, in documents that pass all filters."""

    wanted: Sequence[str]
    unwanted: Sequence[str]
    collection: str
    titles: bool = True
    source: str | None = None
    filters: Sequence[Filter] = ()
    limit: int | None = None
    besides: Sequence[str] = ()
    """Documents whose scores are wanted, too, if they are found, however far down they are."""


class FullText(Protocol):
    """A module that searches the texts of a database."""

    def match(self, db: Database, asked: TextSearch) -> Matches:
        """What is found, best first."""
        ...

    def excerpts(
        self, db: Database, wanted: Sequence[str], unwanted: Sequence[str], collection: str, ids: Sequence[str]
    ) -> dict[str, tuple[str, str]]:
        """Title and an excerpt of each document that a query finds, with marks around what matches."""
        ...
