"""What a relational backend has to bring."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol


class Database(Protocol):
    """Connections, transactions and named statements of one database."""

    def transaction(self) -> AbstractContextManager[None]:
        """Hold what is needed to write; nested blocks join the outermost one."""
        ...

    def read(self, name: str, *parameters: Any) -> Any:
        """The answer of a named query, as plain lists and values."""
        ...

    def fetch(self, name: str, *parameters: Any) -> list[tuple[Any, ...]]:
        """The rows of a named query, for what JSON cannot carry: bytes."""
        ...

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement; answer how many rows it changed."""
        ...

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named statement for many rows at once."""
        ...

    def text_query(self, wanted: Sequence[str], unwanted: Sequence[str], *, titles: bool = True) -> str:
        """A full-text query in this database's language."""
        ...

    def reserve(self, table: str, count: int) -> int:
        """The first of `count` row ids that no row has had."""
        ...
