"""Search methods of the store: full text by words, vectors by similarity."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import TYPE_CHECKING

from onward.search.fulltext import SearchDatabase, TextSearch
from onward.search.vector_spaces import VectorSpaces

if TYPE_CHECKING:
    from onward.model.documents import Document
    from onward.model.search_query import Filter, Matches, VectorHit


class SearchQueries:
    """Searches the documents of a database."""

    db: SearchDatabase

    @cached_property
    def _vector_spaces(self) -> VectorSpaces:
        return VectorSpaces(self.db)

    def match(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        *,
        titles: bool = True,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        limit: int | None = None,
        besides: Sequence[str] = (),
    ) -> Matches:
        """Return all documents with any of the wanted words and phrases and none of the unwanted, best first.

        A filter is a key, a relation (`=`, `>=`, `<`, `like`) and a value. With a limit, only the best, and also
        those of `besides` that are found. A word that more than half of all texts have finds documents but does
        not rank them, unless the query has no other word; then it ranks the newest thousand. Documents that are
        not ranked come last, the newest first.
        """
        query = TextSearch(wanted, unwanted, _collection(document), titles, source, filters, limit, besides)
        return self.db.fulltext.match(self.db, query)

    def excerpts(
        self,
        wanted: Sequence[str],
        unwanted: Sequence[str],
        document: type[Document] | str,
        ids: Sequence[str],
    ) -> dict[str, tuple[str, str]]:
        """Return title and an excerpt of these documents, with marks around the words that match."""
        return self.db.fulltext.excerpts(self.db, wanted, unwanted, _collection(document), ids)

    def nearest(
        self,
        vector: bytes,
        document: type[Document] | str,
        *,
        model: str,
        parents: type[Document] | str,
        source: str | None = None,
        filters: Sequence[Filter] = (),
        each_parent: bool = False,
        limit: int | None = None,
        among: Sequence[str] | None = None,
    ) -> list[VectorHit]:
        """Return the documents of a model's vector space, nearest first. Filters apply to their parents' keys.

        With `each_parent`, only the nearest document of each parent; with a limit, only the nearest of all; with
        `among`, only the documents of these parents.
        """
        return self._vector_spaces.nearest(
            vector,
            model=model,
            collection=_collection(document),
            parents=_collection(parents),
            source=source,
            filters=filters,
            each_parent=each_parent,
            limit=limit,
            among=among,
        )

    def ids_without_vector(
        self, document: type[Document] | str, model: str, *, after: str = "", limit: int = 500
    ) -> list[str]:
        """List the documents that have no vector of this model, by id."""
        return list(self.db.read("ids_without_vector", model, _collection(document), after, limit))


def _collection(document: type[Document] | str) -> str:
    return document if isinstance(document, str) else document.collection
