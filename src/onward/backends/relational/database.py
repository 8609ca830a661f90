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

    def run(self, name: str, *parameters: Any) -> int:
        """Execute a named statement; answer how many rows it changed."""
        ...

    def bulk(self, name: str, rows: Sequence[Sequence[Any]]) -> None:
        """Execute a named statement for many rows at once."""
        ...

    def reserve(self, table: str, count: int) -> int:
        """The first of `count` row ids that no row has had."""
        ...
