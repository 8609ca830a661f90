"""Search methods of the store: texts ranked by words and vectors, the nearest vectors, excerpts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any

from onward.search.index_writer import IndexWriter
from onward.search.text_index import TextIndex
from onward.search.text_snapshot import TextSnapshot
from onward.search.vector_index import VectorIndex, VectorSpace, as_hits

if TYPE_CHECKING:
    from onward.model.documents import Document
    from onward.model.search_query import VectorHit
    from onward.search.fusion import Ranking, RankingQuery


class SearchQueries:
    db: Any  # the `Database` of the store
    atomically: Callable[..., Any]

    @cached_property
    def _text_index(self) -> TextIndex:
        return TextIndex(self.db)

    @cached_property
    def _vector_index(self) -> VectorIndex:
        return VectorIndex(self.db)

    def texts(self, document: type[Document] | str) -> TextSnapshot:
        """Return the indexed texts of a collection as they are now."""
        return self._text_index.snapshot(_collection(document))

    def search(self, texts: TextSnapshot, query: RankingQuery) -> Ranking:
        """Return the texts of a snapshot that match a query best, best first."""
        from onward.search.fusion import rank_texts  # here and below: most users of a store do not search

        return rank_texts(texts, self._vector_index, query)

    def similar(
        self, texts: TextSnapshot, id: str, *, space: VectorSpace, group: str = "", limit: int = 10
    ) -> Ranking:
        """Return the texts of a snapshot that are about the same as the text of a document, best first."""
        from onward.search.similar import similar_texts

        return similar_texts(texts, self._vector_index, id, space=space, group=group, limit=limit)

    def indexed_texts(self, document: type[Document] | str, ids: Sequence[str]) -> dict[str, tuple[str, str, str]]:
        """Return title, text and quoted text by which documents are found, by id."""
        docs = {doc: id for id, _, doc in self.db.fetch("numbers_of_ids", _collection(document), list(ids))}
        found = self.db.fetch("texts_of_docs", list(docs)) if docs else []
        return {docs[doc]: (title, text, quoted) for doc, title, text, quoted in found}

    def excerpts(
        self, document: type[Document] | str, languages: Mapping[str, str], terms: Collection[str]
    ) -> dict[str, tuple[str, str]]:
        """Return title and an excerpt of documents, with marks around the words that match.

        Documents are given by their ids, each with its language; the terms are those of a ranking.
        """
        from onward.search.excerpts import excerpt, marked

        docs = {doc: id for id, _, doc in self.db.fetch("numbers_of_ids", _collection(document), list(languages))}
        found = self.db.fetch("texts_of_docs", list(docs)) if docs else []
        return {
            docs[doc]: (
                marked(title, terms, languages[docs[doc]]),
                excerpt(text, quoted, terms, languages[docs[doc]]),
            )
            for doc, title, text, quoted in found
        }

    def nearest(
        self,
        vector: bytes,
        document: type[Document] | str,
        *,
        model: str,
        parents: type[Document] | str,
        limit: int = 100,
        among: Sequence[str] | None = None,
    ) -> list[VectorHit]:
        """Return the documents of a model's vector space, nearest first.

        With `among`, only those of these parents. Of a large space, the nearest are found by codes of their
        vectors: a few of them may be missed.
        """
        space, of = VectorSpace(model, _collection(document)), _collection(parents)
        if among is None:
            found = self._vector_index.nearest(space, vector, limit)
        else:
            found = self._vector_index.of_parents(space, vector, [f"{of}/{id}" for id in among])
        return as_hits(found[:limit], of)

    def pack_index(self, *, everything: bool = False) -> int:
        """Pack texts and vectors that wait for it, if they are many; return how many were packed."""
        return IndexWriter(self.db, self.atomically).pack(everything=everything)

    def ids_without_vector(
        self, document: type[Document] | str, model: str, *, after: str = "", limit: int = 500
    ) -> list[str]:
        return list(self.db.read("ids_without_vector", model, _collection(document), after, limit))

    def remove_vectors(self, document: type[Document] | str, model: str, *, page: int = 2_000) -> Iterator[int]:
        """Remove the vectors of a model, a page in each transaction; yield how many each page had."""
        collection, after = _collection(document), 0
        while docs := self.db.read("docs_with_vector", model, collection, after, page):
            self.atomically(partial(self._remove_page, model, docs))
            after = docs[-1]
            yield len(docs)
        self.atomically(partial(self._remove_space, model, collection))

    def _remove_page(self, model: str, docs: Sequence[int]) -> None:
        self.db.lock("search index")
        # Waiting rows first, as writers do it: a vector that is just being written is waited for. Codes are only
        # marked, for their space stays if vectors are added meanwhile.
        for statement in ("settle_waiting_vectors", "mark_replaced_vectors", "delete_vectors_of_model"):
            self.db.send(statement, model, docs)

    def _remove_space(self, model: str, collection: str) -> None:
        self.db.lock("search index")
        if not self.db.read("docs_with_vector", model, collection, 0, 1):  # else some were added meanwhile
            self.db.send("delete_vector_blocks", model, collection)
            self.db.send("delete_vector_spaces", model, collection)

    def vector_counts(self, document: type[Document] | str) -> dict[str, int]:
        """Return how many documents of a collection have a vector of each model.

        It is read from counts that packing keeps. Vectors that were removed since then are still counted.
        """
        counts: Counter[str] = Counter()
        for model, count in self.db.fetch("vector_counts", _collection(document)):
            counts[model] += count
        return dict(counts)


def _collection(document: type[Document] | str) -> str:
    return document if isinstance(document, str) else document.collection
