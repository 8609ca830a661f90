"""The port to full-text search, which each database dialect implements in its own way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from onward.model.search_query import Filter, Matches

MAX_RANKED_BY_COMMON_WORDS = 1_000
"""Texts that are ranked, the newest, if all words of a query are common. More is slow, and no better."""
UNRANKED_SCORE = 1e-9  # the score of a text that was found but not ranked


class SearchDatabase(Protocol):
    """The database that search needs: named queries, and the full-text search of its dialect."""

    def read(self, name: str, *parameters: Any) -> Any: ...

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]: ...

    def in_transaction(self) -> bool: ...

    @property
    def fulltext(self) -> FullText:
        """The full-text search of this dialect."""


@dataclass(frozen=True, slots=True)
class TextSearch:
    """A full-text query: any of the wanted terms, none of the unwanted, in documents that pass all filters."""

    wanted: Sequence[str]
    unwanted: Sequence[str]
    collection: str
    titles: bool = True
    source: str | None = None
    filters: Sequence[Filter] = ()
    limit: int | None = None
    besides: Sequence[str] = ()  # documents whose scores are returned, too, if they are found, whatever their rank


class FullText(Protocol):
    """A module that searches the texts of a database."""

    def match(self, db: SearchDatabase, query: TextSearch) -> Matches:
        """Return the documents that match, best first."""

    def excerpts(
        self,
        db: SearchDatabase,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        collection: str,
        ids: Sequence[str],
    ) -> dict[str, tuple[str, str]]:
        """Return title and an excerpt of each document that a query finds, with marks around what matches."""
